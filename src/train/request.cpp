#include "train/request.h"

#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/files.h"
#include "data/corpus_reader.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

/// "runs/mybook", or "runs/mybook-2" when that exists.
fs::path free_run_folder(const std::string& corpus) {
  std::error_code error;
  const fs::path named = fs::weakly_canonical(corpus, error);  // "." has no name of its own
  std::string stem = named.stem().string();
  if (stem.empty() || stem.find_first_of("*?[") != stem.npos) stem = "run";
  if (corpus == "-") stem = "stdin";
  fs::path folder = fs::path("runs") / stem;
  for (int i = 2; fs::exists(folder); ++i)
    folder = fs::path("runs") / fmt::format("{}-{}", stem, i);
  return folder;
}

/// Copies standard input into a file, so that the run can be resumed.
fs::path keep_standard_input(const fs::path& run) {
  fs::create_directories(run);
  const fs::path path = run / "stdin.txt";
  FileWriter writer(path);
  std::string buffer(1 << 20, '\0');
  while (true) {
    const ssize_t size = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail("cannot read standard input: {}", system_message(errno));
    if (size == 0) break;
    writer.write(buffer.data(), static_cast<std::size_t>(size));
  }
  writer.close();
  return path;
}

/// A new run goes into a folder that holds none, and nothing there is touched before that is clear.
void refuse_finished(const fs::path& run) {
  if (fs::exists(run / "config.toml")) {
    fail_usage(
        "{} holds a run already; go on with --resume {}, or choose another folder with --out",
        run.string(), run.string());
  }
}

TrainRequest resume_request(const TrainInputs& inputs) {
  if (!inputs.corpus.empty() || !inputs.preset.empty() || !inputs.config_file.empty() ||
      !inputs.out.empty() || !inputs.model.empty() || !inputs.data.empty() ||
      inputs.train.size() > inputs.train.count("steps")) {
    fail_usage("--resume takes the run's own config; only --steps can be changed beside it");
  }
  TrainRequest request{.config = read_run_config(fs::path(inputs.resume) / "config.toml"),
                       .run = inputs.resume,
                       .resume = true,
                       .command = inputs.command};
  TrainConfig& train = request.config.train;
  const std::int64_t before = train.steps;
  set_fields_from_text(train, inputs.train);
  // The schedule stays what it was; more steps go on at its floor.
  if (train.steps != before && train.decay_steps == 0) train.decay_steps = before;
  return request;
}

}  // namespace

TrainRequest make_train_request(const TrainInputs& inputs) {
  if (!inputs.resume.empty()) return resume_request(inputs);
  TrainRequest request{.config = {}, .run = inputs.out, .resume = false, .command = inputs.command};
  RunConfig& config = request.config;
  Json file = Json::object();
  if (!inputs.config_file.empty()) {
    file = parse_toml(read_file(inputs.config_file), inputs.config_file);
    run_config_from_json(config, file);
  }
  if (!inputs.corpus.empty()) config.data.corpus = inputs.corpus;
  set_fields_from_text(config.data, inputs.data);
  if (config.data.corpus.empty()) {
    fail_usage(
        "no corpus is named; give a file or a folder of text, as in: headloom train book.txt");
  }
  if (request.run.empty()) request.run = free_run_folder(config.data.corpus[0]);
  refuse_finished(request.run);
  for (std::string& path : config.data.corpus) {
    if (path == "-") path = keep_standard_input(request.run).string();
  }
  const std::int64_t bytes = corpus_bytes(corpus_files(config.data.corpus));
  choose_model(config, bytes);
  if (!inputs.preset.empty()) config.model = preset(inputs.preset);
  if (file.contains("model")) fields_from_json(config.model, file["model"]);
  set_fields_from_text(config.model, inputs.model);
  config.model.validate();
  const auto set_training = [&] {
    if (file.contains("train")) fields_from_json(config.train, file["train"]);
    set_fields_from_text(config.train, inputs.train);
  };
  // First to learn what is wanted, then over the cadences that follow from it; 0 means not said.
  config.train.steps = config.train.batch = 0;
  set_training();
  choose_schedule(config, bytes);
  set_training();
  return request;
}

}  // namespace headloom
