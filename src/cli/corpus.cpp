#include <fmt/core.h>

#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "data/corpus_generator.h"

namespace headloom {
namespace {

struct CorpusArguments {
  std::int64_t seed = 1;
  double megabytes = 10;
  std::string out = "corpus.txt";
};

}  // namespace

void add_corpus_command(CLI::App& app) {
  auto given = std::make_shared<CorpusArguments>();
  CLI::App* command = app.add_subcommand("corpus",
                                         "Write text in a little language whose structure heads "
                                         "can learn, with the truth beside it.\n\n"
                                         "  headloom corpus --seed 1 --mb 10 --out corpus.txt");
  command->add_option("--seed", given->seed, "seed; the same seed gives the same text");
  command->add_option("--mb", given->megabytes, "size in megabytes")->check(CLI::PositiveNumber);
  command->add_option("--out", given->out, "file to write");
  command->callback([given] {
    const std::filesystem::path truth =
        write_corpus(static_cast<std::uint64_t>(given->seed),
                     static_cast<std::int64_t>(given->megabytes * 1e6), given->out);
    fmt::print("{}\n{}\n", given->out, truth.string());
  });
}

}  // namespace headloom
