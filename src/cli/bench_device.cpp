#include <fmt/core.h>

#include <memory>

#include "base/progress.h"
#include "bench/attention_bench.h"
#include "bench/decode_bench.h"
#include "bench/interleaved.h"
#include "bench/train_bench.h"
#include "cli/bench_tables.h"
#include "cli/device.h"

namespace headloom {
namespace {

struct DeviceArguments {
  BackendChoice backend;
  std::int64_t tokens = 8192, steps = 10;
};

void print_line(const std::string& what, const std::string& shape, double seconds, double flops,
                double share) {
  fmt::print("{:<34}{:<34}{:>10.3f}{:>12.2f}{:>8.1f}%\n", what, shape, 1e3 * seconds,
             flops / seconds / 1e12, 100 * share);
  std::fflush(stdout);
}

void print_attention(const Ops<float>& ops, std::int64_t tokens) {
  for (const std::int64_t dim : {32, 64, 96, 128}) {
    for (const std::int64_t seq : {512, 1024, 2048, 4096}) {
      // Row by row, long contexts take seconds a call.
      if (seq > tokens || (ops.precision != Precision::kBf16 && seq > 1024)) continue;
      const std::int64_t heads = 768 / dim;
      for (const BenchRow& row : bench_attention({tokens / seq, seq, {heads, heads, dim}}, ops)) {
        print_line("attention " + row.name, row.shape, row.seconds, row.flops, row.share);
      }
    }
  }
}

void print_steps(const Ops<float>& ops, const DeviceArguments& given) {
  for (const char* name : {"andrea-12m", "andrea-120m"}) {
    const ModelConfig config = preset(name);
    const std::int64_t batch = std::max<std::int64_t>(1, given.tokens / config.context);
    const TrainBench bench = bench_train(config, batch, given.steps, ops);
    print_line(fmt::format("whole step, {}", name),
               fmt::format("B {} T {}, {} tokens/s", batch, config.context,
                           format_count(static_cast<long long>(bench.tokens_per_second))),
               bench.seconds_per_step, bench.share * bench.peak * bench.seconds_per_step,
               bench.share);
    for (const OpProfile& op : bench.ops) {
      const double seconds = op.seconds / static_cast<double>(bench.steps);
      fmt::print("  {:<32}{:<34}{:>10.3f}\n", op.name,
                 fmt::format("{} calls, one by one", op.calls / bench.steps), 1e3 * seconds);
    }
    const DecodeBench decode = bench_decode(config, 100, 40, ops);
    fmt::print("{:<34}{:<34}{:>10.3f}{:>20.1f}%\n", fmt::format("decoding, {}", name),
               fmt::format("{:.0f} tokens/s, share of bandwidth", decode.tokens_per_second),
               1e3 / decode.tokens_per_second, 100 * decode.share);
  }
}

void print_device(const DeviceArguments& given) {
  const Ops<float>& ops = open_device(given.backend);
  fmt::print("{}, matrices of 4096 multiplied at {:.2f} TFLOP/s, which shares are of\n",
             device_words(ops), meter_of(ops).peak() / 1e12);
  fmt::print("{:<34}{:<34}{:>10}{:>12}{:>9}\n", "", "shape", "ms", "TFLOP/s", "of peak");
  print_steps(ops, given);
  print_attention(ops, given.tokens);
}

}  // namespace

void add_bench_device(CLI::App& bench) {
  auto given = std::make_shared<DeviceArguments>();
  CLI::App* command = bench.add_subcommand(
      "device", "one table: attention over head_dim and context, whole steps, decoding");
  command->add_option("--tokens", given->tokens, "tokens in a batch")
      ->check(CLI::Range(1024, 1 << 20));
  command->add_option("--steps", given->steps, "steps to time")->check(CLI::PositiveNumber);
  add_device_options(*command, given->backend);
  command->callback([given] { print_device(*given); });
}

}  // namespace headloom
