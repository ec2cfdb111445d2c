#include "bench/decode_bench.h"

#include <chrono>

#include "bench/median.h"
#include "bench/peak.h"
#include "model/decode.h"

namespace headloom {
namespace {

/// What the device reads a second: the CPU by itself; a card as it copies, both ways counted.
double measure_device_bandwidth(const Ops<float>& ops) {
  if (ops.device->is_host) return measure_read_bandwidth(0.05);
  constexpr std::int64_t kWidth = 128;
  const std::int64_t rows = ops.device->is_emulated ? 1 << 4 : 1 << 20;
  Heads<float> from, to;
  const Arena arena = arrange(
      [&](Arena& a) {
        for (Heads<float>* x : {&from, &to}) {
          *x = {a.take<float>(rows * kWidth), 1, rows, 1, kWidth, rows * kWidth, kWidth};
        }
      },
      *ops.device);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ops.copy_heads({from, to});
    ops.device->finish();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * sizeof(float) * static_cast<double>(rows * kWidth) / took.count());
  }
  return best;
}

}  // namespace

DecodeBench bench_decode(const ModelConfig& config, std::int64_t prompt, std::int64_t tokens,
                         const Ops<float>& ops) {
  const ParameterLayout layout(config);
  const ParameterArray<float> parameters(layout, *ops.device);
  parameters.write([&](float* numbers) { initialise(layout, config, 1, numbers); });
  Decoder decoder(config, ops, parameters.data());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(prompt));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(config.vocab_size));
  }
  const auto seconds = [&](std::span<const std::int32_t> fed) {
    const auto start = std::chrono::steady_clock::now();
    decoder.feed(fed);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds({ids.data(), 1});  // touches the memory
  decoder.reset();
  DecodeBench bench;
  bench.prompt_tokens_per_second = static_cast<double>(prompt) / seconds(ids);
  std::vector<double> times, shares, bandwidths;
  // A token table is looked up, not read; the head is read whole.
  const std::int64_t unread = config.tied ? 0 : layout.count(ParameterGroup::kTokens);
  bench.bytes_per_token =
      sizeof(float) *
      static_cast<double>(layout.count() - unread - layout.count(ParameterGroup::kPositions));
  for (std::int64_t i = 0; i < tokens; ++i) {
    if (i % 10 == 0) bandwidths.push_back(measure_device_bandwidth(ops));
    times.push_back(seconds({ids.data(), 1}));
  }
  bench.bandwidth = median(bandwidths);
  bench.tokens_per_second = 1 / median(times);
  bench.share = bench.bytes_per_token * bench.tokens_per_second / bench.bandwidth;
  return bench;
}

}  // namespace headloom
