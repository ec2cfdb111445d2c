#pragma once

#include <map>
#include <string>
#include <vector>

namespace headloom {

/// A training as a program asks for it; what is left empty is chosen as the command line chooses
/// it.
struct TrainOptions {
  std::vector<std::string> corpus;  ///< files, folders and patterns
  std::string preset;  ///< andrea-nano, andrea-12m, andrea-120m, andrea-480m, gpt2-124m
  std::string run;     ///< folder of the run; must not hold one yet
  /// Any field of the config by its key, as text: {"steps", "500"}, {"n_heads", "6"}, ...
  std::map<std::string, std::string> settings;
  std::string device = "cpu";      ///< cpu, cuda, or auto: cuda where it can be used
  std::string precision = "fp32";  ///< of multiplications on a card: fp32, tf32, bf16
  bool quiet = false;              ///< no progress on stderr
};

/// Trains from beginning to end and returns the held-out loss, in nats a token.
/// Errors: headloom::Error; its kind tells a wrong config from a file that cannot be read from a
/// training that diverged. Unknown settings are refused with the nearest key.
double train(const TrainOptions& options);

}  // namespace headloom
