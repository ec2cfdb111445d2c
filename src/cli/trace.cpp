#include "bench/trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/fields.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/find_model.h"
#include "ops/backend.h"
#include "train/loaded_model.h"

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

/// The model of a folder, or a preset or config file with fresh weights and bytes for tokens.
LoadedModel model_to_trace(const std::string& name) {
  if (std::filesystem::is_directory(name)) return load_model(name);
  const ModelConfig config = find_model(name);
  config.validate();
  const ParameterLayout layout(config);
  LoadedModel model{config, Tokenizer::bytes(), layout, ParameterArray<float>(layout)};
  initialise(layout, config, 1, model.parameters.data());
  return model;
}

void trace(const TraceArguments& given) {
  const LoadedModel model = model_to_trace(given.model);
  std::vector<std::int32_t> ids;
  Encoder(model.tokenizer).encode(given.text, ids);
  if (ids.empty()) fail_usage("--text is empty; give it a word");
  for (std::int32_t& id : ids) id %= static_cast<std::int32_t>(model.config.vocab_size);
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(model.config.context)));
  if (!given.json) {
    fmt::print("{}: {} tokens, {} threads, {}\n", given.model, ids.size(), thread_count(),
               active_isa());
  }
  print_trace(trace_forward(model.config, model.parameters.data(), ids), given.json);
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
