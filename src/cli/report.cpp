#include "report/report.h"

#include <fmt/core.h>

#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/progress.h"
#include "cli/commands.h"

namespace headloom {
namespace {

struct ReportArguments {
  std::string model, out = "report.html";
  std::int64_t step = -1;
  QuestionRequest question;
};

Json measure(const ReportArguments& given) {
  Progress progress;  // ends, and clears its line, before anything is printed
  return report_data(given.model, given.question, given.step, [&](const std::string& doing) {
    if (progress.live()) progress.status(doing);
  });
}

void write_report(const ReportArguments& given) {
  const std::filesystem::path folder = std::filesystem::absolute(given.out).parent_path();
  if (!std::filesystem::is_directory(folder)) {
    fail_usage("{} is no folder to write {} into", folder.string(), given.out);
  }
  const Json data = measure(given);
  write_file_atomic(given.out, report_page(data));
  for (const Json& finding : data["findings"]) fmt::print("{}\n", finding.get<std::string>());
  fmt::print("{}\n", given.out);
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto given = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand(
      "report",
      "Write everything about a run's heads into one page that opens in any browser, offline.\n\n"
      "  headloom report runs/mybook -o report.html\n"
      "  headloom report runs/mybook --text other.txt --sequences 128");
  command->add_option("model", given->model, "folder of a run, or of a published GPT-2")
      ->required();
  command->add_option("-o,--out", given->out, "file to write");
  command->add_option("--step", given->step, "checkpoint to use (default: the newest)");
  add_question_options(*command, given->question);
  command->callback([given] { write_report(*given); });
}

}  // namespace headloom
