#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "train/config.h"

namespace headloom {

class Progress;
class TokenCache;
class Tokenizer;
class Trainer;

/// A run as it looks to what watches it, valid as long as the run goes on.
struct WatchedRun {
  Trainer& trainer;
  const TokenCache& tokens;
  const Tokenizer& tokenizer;
  Progress& progress;                ///< for lines on the terminal
  const std::filesystem::path& run;  ///< its folder
};

/// What watches a run from inside its loop. It must leave weights, gradients and data as they are.
struct Watcher {
  std::function<void()> before_step;
  std::function<void()> after_step;
};

/// What a training says on its way.
enum class Verbosity { kNormal, kQuiet };

/// A training, wholly decided.
struct TrainRequest {
  RunConfig config;
  std::filesystem::path run;  ///< folder of the run
  bool resume = false;        ///< go on where `run` stopped; config.train.steps may differ
  std::string command;        ///< written into config.toml, so that the run can be repeated
  Verbosity verbosity = Verbosity::kNormal;
  bool json = false;      ///< the lines of metrics.jsonl also go to standard output
  BackendChoice backend;  ///< where it is computed; no part of the config: any device can go on
  std::function<Watcher(const WatchedRun&)> watch;  ///< makes what watches; may be empty
};

/// A training as a person asks for it; what is left empty is chosen.
struct TrainInputs {
  std::vector<std::string> corpus;  ///< files, folders, patterns; "-" reads standard input
  std::string preset;
  std::string config_file;
  std::string out;     ///< default: runs/<name of the corpus>
  std::string resume;  ///< folder of a run to go on with; then only `steps` may be set
  std::map<std::string, std::string> model;  ///< texts of ModelConfig's fields
  std::map<std::string, std::string> train;  ///< of TrainConfig's
  std::map<std::string, std::string> data;   ///< of DataConfig's
  std::string command;
};

/// Decides everything, from the general to the particular: the size of the corpus, the preset, the
/// config file, the fields that are set. Standard input is copied into the run's folder.
/// Errors: kUsage for what does not go together or does not work.
TrainRequest make_train_request(const TrainInputs& inputs);

}  // namespace headloom
