#include "bench/peak.h"

#include <chrono>
#include <cstring>
#include <vector>

#include "base/threads.h"
#include "ops/cpu.h"
#include "tensor/arena.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peak.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

/// Runs `rounds` of FMAs on registers only. Returns their number of FLOPs; `sink` keeps the
/// compiler from leaving them out.
double fma_rounds(std::int64_t rounds, float* sink) {
  const F d;
  constexpr int kChains = hn::MaxLanes(F()) == 16 ? 24 : 12;
  V sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Set(d, static_cast<float>(i));
  const V a = hn::Set(d, sink[0]), b = hn::Set(d, sink[1]);
  for (std::int64_t n = 0; n < rounds; ++n) {
#pragma GCC unroll 24
    for (int i = 0; i < kChains; ++i) sum[i] = hn::MulAdd(sum[i], a, b);
  }
  V total = hn::Zero(d);
  for (int i = 0; i < kChains; ++i) total = hn::Add(total, sum[i]);
  sink[2] = sum_lanes(total);
  return 2.0 * static_cast<double>(rounds) * kChains * static_cast<double>(hn::Lanes(d));
}

double read_range(const float* p, std::int64_t begin, std::int64_t end) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (std::int64_t i = begin; i + 4 * lanes <= end; i += 4 * lanes) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[j] = hn::Add(sum[j], hn::LoadU(d, p + i + j * lanes));
  }
  return static_cast<double>(sum_lanes(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]))));
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(fma_rounds);
HWY_EXPORT(read_range);

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Work per second of `pass`, repeated for at least `seconds`, the best pass counted: bandwidth is
/// what the machine can do, and another program's traffic is not part of that.
template <class Pass>
double best_rate(double seconds, double work, Pass pass) {
  double best = 0;
  const Clock::time_point begin = Clock::now();
  do {
    const Clock::time_point start = Clock::now();
    pass();
    best = std::max(best, work / seconds_since(start));
  } while (seconds_since(begin) < seconds);
  return best;
}

/// Far larger than any cache.
constexpr std::int64_t kArrayFloats = std::int64_t{128} << 20;

}  // namespace

double measure_fma_peak(double seconds) {
  ensure_isa();
  const int threads = thread_count();
  std::vector<double> rates(static_cast<std::size_t>(threads), 0.0);
  parallel_slices(threads, [&](std::int64_t, std::int64_t, int part) {
    float sink[3] = {0.999F, 0.001F, 0.0F};
    double flops = 0;
    const Clock::time_point start = Clock::now();
    do flops += HWY_DYNAMIC_DISPATCH(fma_rounds)(20'000, sink);
    while (seconds_since(start) < seconds);
    rates[static_cast<std::size_t>(part)] = flops / seconds_since(start);
  });
  double total = 0;
  for (const double rate : rates) total += rate;
  return total;
}

double measure_copy_bandwidth(double seconds) {
  Arena arena(2 * kArrayFloats * sizeof(float));
  float *from = arena.take<float>(kArrayFloats), *to = arena.take<float>(kArrayFloats);
  const auto copy = [&] {
    parallel_slices(kArrayFloats, [&](std::int64_t begin, std::int64_t end, int) {
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  };
  parallel_slices(kArrayFloats, [&](std::int64_t begin, std::int64_t end, int) {
    std::fill(from + begin, from + end, 1.0F);
  });
  copy();
  return best_rate(seconds, 2.0 * kArrayFloats * sizeof(float), copy);
}

double measure_read_bandwidth(double seconds) {
  ensure_isa();
  Arena arena(kArrayFloats * sizeof(float));
  float* data = arena.take<float>(kArrayFloats);
  parallel_slices(kArrayFloats, [&](std::int64_t begin, std::int64_t end, int) {
    std::fill(data + begin, data + end, 1.0F);
  });
  std::vector<double> sums(static_cast<std::size_t>(thread_count()), 0.0);
  return best_rate(seconds, 1.0 * kArrayFloats * sizeof(float), [&] {
    parallel_slices(kArrayFloats, [&](std::int64_t begin, std::int64_t end, int part) {
      sums[static_cast<std::size_t>(part)] = HWY_DYNAMIC_DISPATCH(read_range)(data, begin, end);
    });
  });
}

double measure_gemm_peak(const Ops<float>& ops, std::int64_t size) {
  constexpr int kCalls = 4;
  const double n = static_cast<double>(size);
  return best_rate(0.05, kCalls * 2.0 * n * n * n, [&] {
    ops.multiply_again(size, kCalls);
    ops.device->finish();
  });
}

}  // namespace headloom
#endif
