#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "data/corpus_reader.h"
#include "train/run.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  std::vector<std::string> corpus;
  std::string preset_name, config_file, out, resume, tokenizer;
  FlagTexts model, train;
};

/// "runs/mybook", or "runs/mybook-2" when that exists.
fs::path free_run_folder(const std::string& corpus) {
  const fs::path given = fs::path(corpus).lexically_normal();
  const fs::path named = given.filename().empty() ? given.parent_path() : given;
  const std::string stem = named.stem().empty() ? "run" : named.stem().string();
  fs::path folder = fs::path("runs") / stem;
  for (int i = 2; fs::exists(folder); ++i)
    folder = fs::path("runs") / fmt::format("{}-{}", stem, i);
  return folder;
}

TrainRequest resume_request(const TrainArguments& given, const std::string& command) {
  if (!given.corpus.empty() || !given.preset_name.empty() || !given.config_file.empty() ||
      !given.out.empty() || !given.tokenizer.empty() || !given.model.empty() ||
      given.train.size() > given.train.count("steps")) {
    fail_usage("--resume takes the run's own config; only --steps can be changed beside it");
  }
  const fs::path run = given.resume;
  TrainRequest request{.config = read_run_config(run / "config.toml"),
                       .run = run,
                       .resume = true,
                       .command = command};
  TrainConfig& train = request.config.train;
  const std::int64_t before = train.steps;
  apply_flags(train, given.train);
  // The schedule stays what it was; more steps go on at its floor.
  if (train.steps != before && train.decay_steps == 0) train.decay_steps = before;
  return request;
}

TrainRequest new_request(const TrainArguments& given, const std::string& command) {
  TrainRequest request{.config = {}, .run = {}, .resume = false, .command = command};
  RunConfig& config = request.config;
  Json file = Json::object();
  if (!given.config_file.empty()) {
    file = parse_toml(read_file(given.config_file), given.config_file);
    run_config_from_json(config, file);
  }
  if (!given.corpus.empty()) config.data.corpus = given.corpus;
  if (!given.tokenizer.empty()) config.data.tokenizer = given.tokenizer;
  if (config.data.corpus.empty()) {
    fail_usage(
        "no corpus is named; give a file or a folder of text, as in: headloom train book.txt");
  }
  const std::int64_t bytes = corpus_bytes(corpus_files(config.data.corpus));
  // From the general to the particular: the corpus' size, the preset, the file, the flags.
  choose_model(config, bytes);
  if (!given.preset_name.empty()) config.model = preset(given.preset_name);
  if (file.contains("model")) fields_from_json(config.model, file["model"]);
  apply_flags(config.model, given.model);
  config.model.validate();
  const auto set_training = [&] {
    if (file.contains("train")) fields_from_json(config.train, file["train"]);
    apply_flags(config.train, given.train);
  };
  // First to learn how many steps are wanted, then over the cadences that follow from them.
  config.train.steps = 0;
  set_training();
  choose_schedule(config, bytes, config.train.steps);
  set_training();
  request.run = given.out.empty() ? free_run_folder(config.data.corpus[0]) : fs::path(given.out);
  return request;
}

}  // namespace

void add_train_command(CLI::App& app, const std::string& command_line, int* exit_code) {
  auto given = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand(
      "train",
      "Train a model on text.\n\n"
      "  headloom train mybook.txt                       everything chosen from the text's size\n"
      "  headloom train texts/ --preset andrea-12m       a folder, a named architecture\n"
      "  headloom train --resume runs/mybook             go on where a run stopped");
  command->add_option("corpus", given->corpus, "files and folders of text");
  command->add_option("--preset", given->preset_name,
                      fmt::format("architecture: {}", fmt::join(preset_names(), ", ")));
  command->add_option("--config", given->config_file,
                      "a TOML file as runs have it; flags go over it");
  command->add_option("--out", given->out, "folder of the run (default runs/<name of the corpus>)");
  command->add_option("--resume", given->resume, "go on with the run in this folder");
  command->add_option("--tokenizer", given->tokenizer,
                      "bpe (trained on the corpus), bytes, or the path of a tokenizer.json");
  add_flags<ModelConfig>(*command, "Model", given->model);
  add_flags<TrainConfig>(*command, "Training", given->train);
  command->callback([given, exit_code, command_line] {
    *exit_code = train_run(given->resume.empty() ? new_request(*given, command_line)
                                                 : resume_request(*given, command_line));
  });
}

}  // namespace headloom
