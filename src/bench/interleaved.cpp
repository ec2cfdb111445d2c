#include "bench/interleaved.h"

#include <algorithm>
#include <chrono>

#include "bench/median.h"
#include "bench/peak.h"

namespace headloom {
namespace {

constexpr double kPeakSeconds = 0.02;

double time_calls(const BenchCase& bench, std::int64_t calls, const Meter& meter) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < calls; ++i) bench.run();
  meter.finish();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return took.count() / static_cast<double>(calls);
}

struct Times {
  std::int64_t calls = 1;
  std::vector<double> seconds, shares, peaks;
};

BenchRow summary(const BenchCase& bench, const Times& times) {
  const auto [fastest, slowest] = std::minmax_element(times.seconds.begin(), times.seconds.end());
  return {.name = bench.name,
          .shape = bench.shape,
          .flops = bench.flops,
          .seconds = median(times.seconds),
          .fastest = *fastest,
          .slowest = *slowest,
          .share = median(times.shares),
          .peak = median(times.peaks)};
}

}  // namespace

Meter meter_of(const Ops<float>& ops) {
  if (ops.device->is_host) return {[] { return measure_fma_peak(kPeakSeconds); }, [] {}};
  // A card's size of matrix; the emulation, which multiplies on the CPU, gets one it can do.
  const std::int64_t size = ops.device->is_emulated ? 16 : 4096;
  return {[peak = measure_gemm_peak(ops, size)] { return peak; }, ops.device->finish};
}

std::vector<BenchRow> run_interleaved(const std::vector<BenchCase>& cases, int rounds,
                                      double seconds, const Meter& meter) {
  std::vector<Times> times(cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    time_calls(cases[i], 1, meter);  // touches memory
    const double once = time_calls(cases[i], 1, meter);
    times[i].calls = std::clamp<std::int64_t>(static_cast<std::int64_t>(seconds / once), 1, 10000);
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const double before = meter.peak();
      times[i].seconds.push_back(time_calls(cases[i], times[i].calls, meter));
      const double peak = (before + meter.peak()) / 2;
      times[i].peaks.push_back(peak);
      times[i].shares.push_back(cases[i].flops / times[i].seconds.back() / peak);
    }
  }
  std::vector<BenchRow> rows;
  for (std::size_t i = 0; i < cases.size(); ++i) rows.push_back(summary(cases[i], times[i]));
  return rows;
}

}  // namespace headloom
