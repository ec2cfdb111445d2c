#include <fmt/core.h>

#include <memory>

#include "base/fields.h"
#include "base/progress.h"
#include "base/threads.h"
#include "bench/decode_bench.h"
#include "bench/interleaved.h"
#include "bench/peak.h"
#include "bench/probe_bench.h"
#include "bench/train_bench.h"
#include "cli/bench_tables.h"
#include "cli/commands.h"
#include "cli/device.h"
#include "cli/find_model.h"

namespace headloom {
namespace {

constexpr double kGiga = 1e9;

struct BenchArguments {
  std::string model = "andrea-12m";
  std::int64_t batch = 4, context = 0, steps = 7, prompt = 900, tokens = 40;
  bool json = false;
  BackendChoice backend;
};

void print_card_peak(const Ops<float>& ops, bool json) {
  const double flops = meter_of(ops).peak();
  if (json) {
    fmt::print("{}\n", Json({{"device", ops.name}, {"gemm_gflops", flops / kGiga}}).dump());
  } else {
    fmt::print("{}: matrices of 4096 multiplied at {:.1f} TFLOP/s\n", ops.name, flops / 1e12);
  }
}

void print_peak(const BenchArguments& given) {
  const bool json = given.json;
  const Ops<float>& ops = open_device(given.backend);
  if (!ops.device->is_host) return print_card_peak(ops, json);
  const double fma = measure_fma_peak(0.3), copy = measure_copy_bandwidth(0.5),
               read = measure_read_bandwidth(0.5);
  if (json) {
    fmt::print("{}\n", Json({{"threads", thread_count()},
                             {"isa", active_isa()},
                             {"fma_gflops", fma / kGiga},
                             {"copy_gbytes", copy / kGiga},
                             {"read_gbytes", read / kGiga}})
                           .dump());
    return;
  }
  fmt::print("{} threads, {}\n", thread_count(), active_isa());
  fmt::print("fp32 fused multiply-add {:8.1f} GFLOP/s\n", fma / kGiga);
  fmt::print("memory copy             {:8.1f} GB/s (read + written)\n", copy / kGiga);
  fmt::print("memory read             {:8.1f} GB/s\n", read / kGiga);
}

Json train_json(const BenchArguments& given, const TrainBench& bench) {
  Json ops = Json::array();
  for (const OpProfile& op : bench.ops) {
    ops.push_back({{"op", op.name},
                   {"calls", op.calls / bench.steps},
                   {"seconds", op.seconds / static_cast<double>(bench.steps)},
                   {"gflops", op.flops / op.seconds / kGiga},
                   {"gbytes", op.bytes / op.seconds / kGiga}});
  }
  return {{"model", given.model},
          {"batch", given.batch},
          {"context", given.context},
          {"threads", thread_count()},
          {"isa", active_isa()},
          {"peak_gflops", bench.peak / kGiga},
          {"seconds_per_step", bench.seconds_per_step},
          {"tokens_per_second", bench.tokens_per_second},
          {"share_of_peak", bench.share},
          {"ops", ops}};
}

void print_train(const BenchArguments& given) {
  const Ops<float>& ops = open_device(given.backend);
  ModelConfig config = find_model(given.model);
  if (given.context > 0) config.context = given.context;
  config.validate();
  const TrainBench bench = bench_train(config, given.batch, given.steps, ops);
  if (given.json) {
    fmt::print("{}\n", train_json(given, bench).dump());
    return;
  }
  fmt::print("{}, B {}, T {}: {}, peak {:.1f} GFLOP/s measured in this run\n", given.model,
             given.batch, config.context, device_words(ops), bench.peak / kGiga);
  fmt::print("whole step {:.1f} ms, {} tokens/s, {:.1f}% of peak (median of {})\n\n",
             1e3 * bench.seconds_per_step,
             format_count(static_cast<long long>(bench.tokens_per_second)), 100 * bench.share,
             bench.steps);
  fmt::print("{:<20}{:>7}{:>10}{:>8}{:>10}{:>9}{:>8}\n", "op", "calls", "ms/step", "time",
             "GFLOP/s", "of peak", "GB/s");
  double total = 0;
  for (const OpProfile& op : bench.ops) total += op.seconds;
  for (const OpProfile& op : bench.ops) {
    const double rate = op.flops / op.seconds;
    fmt::print("{:<20}{:>7}{:>10.2f}{:>7.1f}%", op.name, op.calls / bench.steps,
               1e3 * op.seconds / static_cast<double>(bench.steps), 100 * op.seconds / total);
    if (op.flops > 0) {
      fmt::print("{:>10.1f}{:>8.1f}%\n", rate / kGiga, 100 * rate / bench.peak);
    } else {
      fmt::print("{:>27.1f}\n", op.bytes / op.seconds / kGiga);
    }
  }
}

void print_decode(const BenchArguments& given) {
  const Ops<float>& ops = open_device(given.backend);
  const ModelConfig config = find_model(given.model);
  config.validate();
  const DecodeBench bench = bench_decode(config, given.prompt, given.tokens, ops);
  if (given.json) {
    fmt::print("{}\n", Json({{"model", given.model},
                             {"prompt", given.prompt},
                             {"threads", thread_count()},
                             {"isa", active_isa()},
                             {"prompt_tokens_per_second", bench.prompt_tokens_per_second},
                             {"tokens_per_second", bench.tokens_per_second},
                             {"read_gbytes", bench.bandwidth / kGiga},
                             {"share_of_bandwidth", bench.share}})
                           .dump());
    return;
  }
  fmt::print("{}, after a prompt of {}: {}, {:.1f} GB/s read measured in this run\n", given.model,
             given.prompt, device_words(ops), bench.bandwidth / kGiga);
  fmt::print(
      "prompt {:.0f} tokens/s; then {:.1f} tokens/s, {:.0f} MB of weights each, {:.1f}% of the "
      "bandwidth (median of {})\n",
      bench.prompt_tokens_per_second, bench.tokens_per_second, bench.bytes_per_token / 1e6,
      100 * bench.share, given.tokens);
}

void print_probes(const BenchArguments& given) {
  const Ops<float>& ops = open_device(given.backend);
  ModelConfig config = find_model(given.model);
  if (given.context > 0) config.context = given.context;
  config.validate();
  const ProbeBench bench = bench_probes(config, given.batch, given.steps, ops);
  if (given.json) {
    fmt::print("{}\n", Json({{"model", given.model},
                             {"batch", given.batch},
                             {"context", config.context},
                             {"threads", thread_count()},
                             {"every", bench.every},
                             {"step_seconds", bench.step},
                             {"watched_step_seconds", bench.watched_step},
                             {"look_seconds", bench.look},
                             {"overhead", bench.overhead()}})
                           .dump());
    return;
  }
  fmt::print(
      "{}, B {}, T {}: a step {:.1f} ms, a watched one {:.1f} ms, the look after it {:.1f} ms\n",
      given.model, given.batch, config.context, 1e3 * bench.step, 1e3 * bench.watched_step,
      1e3 * bench.look);
  fmt::print("every {} steps: {:.2f}% of training time (medians of {})\n", bench.every,
             100 * bench.overhead(), given.steps);
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto given = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand("bench",
                                         "Measure this machine and this build.\n\n"
                                         "  headloom bench peak\n"
                                         "  headloom bench train andrea-12m --batch 4\n"
                                         "  headloom bench decode andrea-120m --prompt 900");
  command->require_subcommand(1);
  CLI::App* peak = command->add_subcommand("peak", "arithmetic and memory, as fast as they go");
  peak->add_flag("--json", given->json, "one JSON object");
  add_device_options(*peak, given->backend);
  peak->callback([given] { print_peak(*given); });
  CLI::App* train = command->add_subcommand("train", "whole optimizer steps, op by op");
  train->add_option("model", given->model, "a preset, a config file or a model's folder");
  train->add_option("--batch", given->batch, "sequences in a step")->check(CLI::PositiveNumber);
  train->add_option("--context", given->context, "tokens in a sequence (default: the model's)");
  train->add_option("--steps", given->steps, "steps to time")->check(CLI::PositiveNumber);
  train->add_flag("--json", given->json, "one JSON object");
  add_device_options(*train, given->backend);
  train->callback([given] { print_train(*given); });
  CLI::App* decode = command->add_subcommand("decode", "writing text, token by token");
  decode->add_option("model", given->model, "a preset, a config file or a model's folder");
  decode->add_option("--prompt", given->prompt, "tokens of prompt")->check(CLI::PositiveNumber);
  decode->add_option("--tokens", given->tokens, "tokens to write")->check(CLI::PositiveNumber);
  decode->add_flag("--json", given->json, "one JSON object");
  add_device_options(*decode, given->backend);
  decode->callback([given] { print_decode(*given); });
  CLI::App* probes = command->add_subcommand("probes", "looking at every head while training");
  probes->add_option("model", given->model, "a preset, a config file or a model's folder");
  probes->add_option("--batch", given->batch, "sequences in a step")->check(CLI::PositiveNumber);
  probes->add_option("--context", given->context, "tokens in a sequence (default: the model's)");
  probes->add_option("--steps", given->steps, "steps of each kind")->check(CLI::PositiveNumber);
  probes->add_flag("--json", given->json, "one JSON object");
  add_device_options(*probes, given->backend);
  probes->callback([given] { print_probes(*given); });
  add_bench_tables(*command);
  add_bench_device(*command);
}

}  // namespace headloom
