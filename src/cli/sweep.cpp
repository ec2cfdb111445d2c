#include "report/sweep.h"

#include <fmt/core.h>

#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "cli/commands.h"
#include "cli/flags.h"

namespace headloom {
namespace {

struct SweepArguments {
  TrainInputs inputs;
  QuestionRequest question;
  bool json = false;
};

/// The list that --n-heads was given, out of the model's fields.
std::vector<std::int64_t> take_heads(TrainInputs& inputs) {
  ModelConfig list;
  list.n_heads = {1, 2};  // a list, so that text is read as one
  const auto given = inputs.model.find("n_heads");
  if (given == inputs.model.end()) fail_usage("--n-heads is missing, as in --n-heads 1,2,4");
  set_field_from_text(list, "n_heads", given->second);
  inputs.model.erase(given);
  return list.n_heads;
}

void print_table(const std::vector<SweepRow>& rows) {
  fmt::print("{:>5}{:>10}{:>13}{:>10}{:>11}{:>8}  {}\n", "heads", "head_dim", "parameters",
             "val loss", "tokens/s", "lanes", "roles found");
  for (const SweepRow& row : rows) {
    std::string roles;
    for (const auto& [role, count] : row.roles) {
      if (role == "unclassified") continue;
      roles += fmt::format("{}{} x {}", roles.empty() ? "" : ", ", count, role);
    }
    fmt::print("{:>5}{:>10}{:>13}{:>10.4f}{:>11.0f}{:>7.0f}%  {}\n", row.heads, row.head_dim,
               row.parameters, row.validation_loss, row.tokens_per_second, 100 * row.lanes_used,
               roles.empty() ? "none" : roles);
  }
}

void sweep(SweepArguments given) {
  if (given.inputs.out.empty()) given.inputs.out = "runs/sweep";
  const std::vector<std::int64_t> heads = take_heads(given.inputs);
  const std::vector<SweepRow> rows = sweep_heads(given.inputs, heads, given.question);
  const std::filesystem::path out = given.inputs.out;
  write_file_atomic(out / "sweep.json", sweep_json(rows).dump() + "\n");
  write_file_atomic(out / "sweep.svg", sweep_svg(rows));
  if (given.json) {
    fmt::print("{}\n", sweep_json(rows).dump());
    return;
  }
  print_table(rows);
  fmt::print("\n{}\n{}\n", (out / "sweep.json").string(), (out / "sweep.svg").string());
}

}  // namespace

void add_sweep_command(CLI::App& app, const std::string& command_line) {
  auto given = std::make_shared<SweepArguments>();
  given->inputs.command = command_line;
  CLI::App* command = app.add_subcommand(
      "sweep",
      "Train the same model with different numbers of heads: why twelve and not one wider head?\n\n"
      "  headloom sweep mybook.txt --n-heads 1,2,4,8 --steps 500 --out runs/sweep\n\n"
      "Width, parameters, tokens and seed are the same; runs that are there already are kept.");
  command->add_option("corpus", given->inputs.corpus, "files, folders and patterns")->required();
  command->add_option("--preset", given->inputs.preset,
                      fmt::format("architecture: {}", fmt::join(preset_names(), ", ")));
  command->add_option("--out", given->inputs.out, "folder of the runs (default: runs/sweep)");
  command->add_flag("--json", given->json, "one JSON object");
  command->add_option("--text", given->question.text,
                      "text to examine heads on (default: what each run holds out)");
  command->add_option("--sequences", given->question.sequences, "sequences to examine heads on")
      ->check(CLI::Range(2, 100000));
  for (const char* key : {"tokenizer", "field"}) {
    add_flag_for<DataConfig>(*command, key, given->inputs.data);
  }
  add_flags<ModelConfig>(*command, "Model", given->inputs.model);
  add_flags<TrainConfig>(*command, "Training", given->inputs.train);
  command->callback([given] { sweep(*given); });
}

}  // namespace headloom
