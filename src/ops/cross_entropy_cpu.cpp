#include <algorithm>
#include <cmath>

#include "base/threads.h"
#include "ops/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cross_entropy_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

float row_max(const float* logits, std::int64_t vocab) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V largest = hn::Set(d, logits[0]);
  std::int64_t v = 0;
  for (; v + lanes <= vocab; v += lanes) largest = hn::Max(largest, hn::LoadU(d, logits + v));
  float result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; v < vocab; ++v) result = logits[v] > result ? logits[v] : result;
  return result;
}

/// Sum of e^(logit - largest); with `gradient`, also leaves these exponentials in the row. Short
/// runs are summed in float, the runs in double, so that a large vocabulary costs no precision.
float row_exp(float* logits, std::int64_t vocab, float largest, bool gradient) {
  constexpr std::int64_t kRun = 512;
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V shift = hn::Set(d, largest);
  double total = 0;
  for (std::int64_t run = 0; run < vocab; run += kRun) {
    const std::int64_t end = std::min(vocab, run + kRun);
    V sum = hn::Zero(d);
    for (std::int64_t v = run; v < end; v += lanes) {
      V p = exp_approx(hn::Sub(load_n(logits + v, end - v), shift));
      if (end - v < lanes) {
        p = hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(end - v)), p);
      }
      sum = hn::Add(sum, p);
      if (gradient) store_n(p, logits + v, end - v);
    }
    total += static_cast<double>(sum_lanes(sum));
  }
  return static_cast<float>(total);
}

void row_scale(float* row, std::int64_t n, float factor) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t v = 0; v < n; v += lanes) {
    store_n(hn::Mul(load_n(row + v, n - v), hn::Set(d, factor)), row + v, n - v);
  }
}

void cross_entropy_rows(const CrossEntropy<float>& c, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    float* logits = c.logits.row(r);
    const std::int32_t target = c.targets[r];
    if (target == kIgnoredTarget) {
      c.losses[r] = 0;
      if (c.write_gradient) std::fill_n(logits, c.logits.cols, 0.0F);
      continue;
    }
    const float largest = row_max(logits, c.vocab), at_target = logits[target];
    const float sum = row_exp(logits, c.vocab, largest, c.write_gradient);
    c.losses[r] = std::log(sum) + (largest - at_target);
    if (!c.write_gradient) continue;
    const auto scale = static_cast<float>(c.gradient_scale);
    row_scale(logits, c.vocab, scale / sum);
    logits[target] -= scale;
    std::fill_n(logits + c.vocab, c.logits.cols - c.vocab, 0.0F);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(cross_entropy_rows);

void cross_entropy_cpu(const CrossEntropy<float>& c) {
  check_targets(c.targets, c.logits.rows, c.vocab);
  parallel_slices(c.logits.rows, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(cross_entropy_rows)(c, begin, end);
  });
}

}  // namespace headloom
#endif
