#include "train/plan.h"

#include <fmt/core.h>

#include <memory>

#include "base/fields.h"
#include "base/progress.h"
#include "bench/estimate.h"
#include "cli/commands.h"
#include "cli/find_model.h"
#include "model/parameters.h"

namespace headloom {
namespace {

struct PlanArguments {
  std::string model;
  std::int64_t batch = 4, context = 0, steps = 0;
  bool json = false;
};

void print_table(const PlanArguments& given, const ModelConfig& config, const MemoryPlan& memory,
                 const ModelFlops& flops, const SpeedEstimate& speed) {
  fmt::print("{}: {} parameters, batch {}, context {}\n\n", given.model,
             format_count(ParameterLayout(config).count()), given.batch, config.context);
  const auto row = [](const char* name, std::int64_t bytes) {
    fmt::print("  {:<14}{:>10.1f} MB\n", name, static_cast<double>(bytes) / 1e6);
  };
  row("weights", memory.weights);
  row("gradients", memory.gradients);
  row("optimizer", memory.optimizer);
  row("activations", memory.activations);
  row("buffers", memory.buffers);
  row("scratch", memory.scratch);
  row("total", memory.total());
  row("available", available_memory());
  fmt::print(
      "\n  work a token: dense layers {:.1f}, attention {:.1f}, logits {:.1f} MFLOP forward; "
      "{:.1f} "
      "in training\n",
      flops.dense / 1e6, flops.attention / 1e6, flops.logits / 1e6, flops.training() / 1e6);
  fmt::print("  measured on one layer: {:.0f} GFLOP/s, so about {} tokens/s, {:.2f} s a step\n",
             speed.flops_per_second / 1e9,
             format_count(static_cast<long long>(speed.tokens_per_second)), speed.seconds_per_step);
  const std::string advice = head_dim_advice(config);
  if (!advice.empty()) fmt::print("  {}\n", advice);
  if (given.steps > 0) {
    fmt::print("  {} steps: about {}\n", format_count(given.steps),
               format_duration(speed.seconds_per_step * static_cast<double>(given.steps)));
  }
}

void plan(const PlanArguments& given) {
  ModelConfig config = find_model(given.model);
  if (given.context > 0) config.context = given.context;
  config.validate();
  const MemoryPlan memory = plan_memory(config, given.batch, config.context);
  const ModelFlops flops = model_flops(config, config.context);
  const SpeedEstimate speed = estimate_speed(config, given.batch);
  if (!given.json) {
    print_table(given, config, memory, flops, speed);
  } else {
    fmt::print("{}\n", Json({{"model", given.model},
                             {"batch", given.batch},
                             {"context", config.context},
                             {"bytes",
                              {{"weights", memory.weights},
                               {"gradients", memory.gradients},
                               {"optimizer", memory.optimizer},
                               {"activations", memory.activations},
                               {"buffers", memory.buffers},
                               {"scratch", memory.scratch},
                               {"total", memory.total()},
                               {"available", available_memory()}}},
                             {"training_flops_per_token", flops.training()},
                             {"tokens_per_second", speed.tokens_per_second},
                             {"seconds_per_step", speed.seconds_per_step}})
                           .dump());
  }
  require_memory(config, given.batch, available_memory());
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto given = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Say what a training will cost, without allocating it.\n\n"
      "  headloom plan andrea-120m --batch 1\n"
      "  headloom plan runs/mybook/config.toml --batch 8 --context 512 --steps 10000");
  command->add_option("model", given->model, "a preset, a config file or a run's folder")
      ->required();
  command->add_option("--batch", given->batch, "sequences in a micro-batch")
      ->check(CLI::PositiveNumber);
  command->add_option("--context", given->context, "tokens in a sequence (default: the model's)");
  command->add_option("--steps", given->steps, "steps, for the time they will take");
  command->add_flag("--json", given->json, "one JSON object");
  command->callback([given] { plan(*given); });
}

}  // namespace headloom
