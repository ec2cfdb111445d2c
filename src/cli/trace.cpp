#include "bench/trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/fields.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/find_model.h"
#include "model/parameters.h"
#include "ops/backend.h"
#include "tokenizer/tokenizer.h"
#include "train/checkpoint.h"

namespace headloom {
namespace {

struct TraceArguments {
  std::string model, text = "The heads are the warp, the output projection is the loom.";
  bool json = false;
};

void print_step(const TraceStep& step) {
  fmt::print("  {:<11}{:<54}{:<24}", step.name, step.shape, step.strides);
  if (step.flops == 0 && step.bytes == 0) {
    fmt::print("{:>9}\n", "a view");
    return;
  }
  fmt::print("{:>9.1f}{:>10.2f}{:>10.3f}{:>9.1f}\n", step.bytes / 1e3, step.flops / 1e6,
             1e3 * step.seconds, step.flops / step.seconds / 1e9);
}

Json step_json(const TraceStep& step) {
  return {{"step", step.name},   {"shape", step.shape}, {"strides", step.strides},
          {"bytes", step.bytes}, {"flops", step.flops}, {"seconds", step.seconds}};
}

void print_trace(const Trace& trace, bool json) {
  if (json) {
    Json out = {{"threads", thread_count()}, {"isa", active_isa()}, {"layers", Json::array()}};
    for (const auto& layer : trace.layers) {
      Json steps = Json::array();
      for (const TraceStep& step : layer) steps.push_back(step_json(step));
      out["layers"].push_back(steps);
    }
    for (const TraceStep& step : trace.around) out["around"].push_back(step_json(step));
    fmt::print("{}\n", out.dump());
    return;
  }
  fmt::print("  {:<11}{:<54}{:<24}{:>9}{:>10}{:>10}{:>9}\n", "step", "shape", "strides", "kB",
             "MFLOP", "ms", "GFLOP/s");
  for (std::size_t l = 0; l < trace.layers.size(); ++l) {
    fmt::print("layer {}\n", l);
    for (const TraceStep& step : trace.layers[l]) print_step(step);
  }
  fmt::print("all layers\n");
  for (const TraceStep& step : trace.around) print_step(step);
}

/// A run with its weights and tokenizer, or a preset with fresh weights and bytes for tokens.
void trace(const TraceArguments& given) {
  namespace fs = std::filesystem;
  const ModelConfig config = find_model(given.model);
  config.validate();
  const ParameterLayout layout(config);
  const ParameterArray<float> parameters(layout);
  const bool is_run = fs::is_directory(given.model);
  const Tokenizer tokenizer =
      is_run ? Tokenizer::load(fs::path(given.model) / "tokenizer.json") : Tokenizer::bytes();
  if (is_run) {
    load_parameters(find_checkpoint(given.model), layout, parameters.data());
  } else {
    initialise(layout, config, 1, parameters.data());
  }
  std::vector<std::int32_t> ids;
  Encoder(tokenizer).encode(given.text, ids);
  if (ids.empty()) fail_usage("--text is empty; give it a word");
  for (std::int32_t& id : ids) id %= static_cast<std::int32_t>(config.vocab_size);
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(config.context)));
  if (!given.json) {
    fmt::print("{}: {} tokens, {} threads, {}\n", given.model, ids.size(), thread_count(),
               active_isa());
  }
  print_trace(trace_forward(config, parameters.data(), ids), given.json);
}

}  // namespace

void add_trace_command(CLI::App& app) {
  auto given = std::make_shared<TraceArguments>();
  CLI::App* command =
      app.add_subcommand("trace",
                         "Walk one pass through the five attention steps of every layer.\n\n"
                         "  headloom trace runs/mybook --text \"Once upon a time\"\n"
                         "  headloom trace andrea-120m");
  command->add_option("model", given->model, "a run's folder, a preset or a config file")
      ->required();
  command->add_option("--text", given->text, "text to pass through the model");
  command->add_flag("--json", given->json, "one JSON object");
  command->callback([given] { trace(*given); });
}

}  // namespace headloom
