#include "train/config.h"

#include "base/error.h"
#include "base/files.h"

namespace headloom {
namespace {

void check_train(const TrainConfig& c, std::vector<std::string>& found) {
  const auto require = [&](bool good, const char* key, const auto& value, const char* wanted) {
    if (!good) found.push_back(fmt::format("{} {} must be {}", key, value, wanted));
  };
  require(c.steps >= 1, "steps", c.steps, "at least 1");
  require(c.batch >= 1, "batch", c.batch, "at least 1");
  require(c.grad_accum >= 1, "grad_accum", c.grad_accum, "at least 1");
  require(c.learning_rate > 0, "learning_rate", c.learning_rate, "positive; 1e-3 works");
  require(c.min_lr_fraction >= 0 && c.min_lr_fraction <= 1, "min_lr_fraction", c.min_lr_fraction,
          "between 0 and 1");
  require(c.warmup >= 0, "warmup", c.warmup, "at least 0");
  require(c.decay_steps >= 0, "decay_steps", c.decay_steps, "0 (as many as steps) or positive");
  require(c.weight_decay >= 0, "weight_decay", c.weight_decay, "at least 0");
  require(c.beta1 >= 0 && c.beta1 < 1, "beta1", c.beta1, "at least 0 and below 1");
  require(c.beta2 >= 0 && c.beta2 < 1, "beta2", c.beta2, "at least 0 and below 1");
  require(c.adam_eps > 0, "adam_eps", c.adam_eps, "positive; 1e-8 works");
  require(c.clip >= 0, "clip", c.clip, "0 (off) or positive; 1 works");
  require(c.validation_fraction >= 0 && c.validation_fraction <= 0.5, "validation_fraction",
          c.validation_fraction, "between 0 and 0.5");
  require(c.eval_every >= 0, "eval_every", c.eval_every, "at least 0");
  require(c.eval_windows >= 1, "eval_windows", c.eval_windows, "at least 1");
  require(c.sample_every >= 0, "sample_every", c.sample_every, "at least 0");
  require(c.sample_tokens >= 1, "sample_tokens", c.sample_tokens, "at least 1");
  require(c.probe_every >= 0, "probe_every", c.probe_every, "at least 0");
  require(c.checkpoint_every >= 0, "checkpoint_every", c.checkpoint_every, "at least 0");
  require(c.keep_checkpoints >= 1, "keep_checkpoints", c.keep_checkpoints, "at least 1");
}

}  // namespace

void RunConfig::validate() const {
  std::vector<std::string> found = config_violations(model);
  check_train(train, found);
  if (data.corpus.empty())
    found.emplace_back("no corpus is named; give a file or a folder of text");
  if (!found.empty()) fail_usage("the config does not work: {}", fmt::join(found, "; "));
}

Json run_config_to_json(const RunConfig& config) {
  return {{"model", fields_to_json(config.model)},
          {"train", fields_to_json(config.train)},
          {"data", fields_to_json(config.data)}};
}

void run_config_from_json(RunConfig& config, const Json& object) {
  for (const auto& [section, values] : object.items()) {
    if (section == "model") {
      fields_from_json(config.model, values);
    } else if (section == "train") {
      fields_from_json(config.train, values);
    } else if (section == "data") {
      fields_from_json(config.data, values);
    } else if (section != "command") {
      fail_usage("unknown section {}{} The sections are model, train, data.", section,
                 did_you_mean(section, {"model", "train", "data"}));
    }
  }
}

RunConfig read_run_config(const std::filesystem::path& file) {
  RunConfig config;
  try {
    run_config_from_json(config, parse_toml(read_file(file), file.string()));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    const std::string message = error.what();
    if (message.starts_with(file.string())) throw;
    fail_usage("{}: {}", file.string(), message);
  }
  return config;
}

}  // namespace headloom
