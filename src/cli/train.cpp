#include <fmt/core.h>

#include <memory>

#include "cli/commands.h"
#include "cli/device.h"
#include "cli/flags.h"
#include "heads/live_probe.h"
#include "train/run.h"

namespace headloom {

void add_train_command(CLI::App& app, const std::string& command_line, int* exit_code) {
  auto given = std::make_shared<TrainInputs>();
  auto quiet = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  auto backend = std::make_shared<BackendChoice>();
  given->command = command_line;
  CLI::App* command = app.add_subcommand(
      "train",
      "Train a model on text.\n\n"
      "  headloom train mybook.txt                       everything chosen from the text's size\n"
      "  headloom train texts/ --preset andrea-12m       a folder, a named architecture\n"
      "  headloom train 'logs/*.jsonl' --field body      documents in JSON lines\n"
      "  zcat huge.gz | headloom train - --out runs/huge standard input\n"
      "  headloom train --resume runs/mybook             go on where a run stopped\n\n"
      "heads.jsonl in the run's folder tells what every head does while it learns "
      "(--probe-every).");
  command->add_option("corpus", given->corpus, "files, folders and patterns; - is standard input");
  command->add_option("--preset", given->preset,
                      fmt::format("architecture: {}", fmt::join(preset_names(), ", ")));
  command->add_option("--config", given->config_file,
                      "a TOML file as runs have it; flags go over it");
  command->add_option("--out", given->out, "folder of the run (default runs/<name of the corpus>)");
  command->add_option("--resume", given->resume, "go on with the run in this folder");
  for (const char* key : {"tokenizer", "field"})
    add_flag_for<DataConfig>(*command, key, given->data);
  command->add_flag("-q,--quiet", *quiet, "only errors");
  command->add_flag("--json", *json, "the lines of metrics.jsonl also on standard output");
  add_flags<ModelConfig>(*command, "Model", given->model);
  add_flags<TrainConfig>(*command, "Training", given->train);
  add_device_options(*command, *backend);
  command->callback([given, quiet, json, backend, exit_code] {
    TrainRequest request = make_train_request(*given);
    if (*quiet) request.verbosity = Verbosity::kQuiet;
    request.json = *json;
    request.backend = *backend;
    request.watch = watch_heads;
    *exit_code = train_run(request);
  });
}

}  // namespace headloom
