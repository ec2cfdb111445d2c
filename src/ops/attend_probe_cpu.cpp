#include "base/threads.h"
#include "ops/attend_probe_ref.h"
#include "ops/cpu.h"
#include "ops/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attend_probe_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

using ProbeRow = probe_detail::Row<float>;

/// Row `last` of one head: probabilities into `a`, and their sums. The logarithm of a probability
/// is its score less lse, so none is taken. Units: factor and lse2 in base 2.
ProbeRow probe_row(const AttendProbe<float>& p, const float* q, std::int64_t b, std::int64_t kv,
                   std::int64_t last, float factor, float lse2, float* a) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t keys = last + 1;
  for (std::int64_t j = 0; j < keys; ++j) a[j] = dot(q, p.k.at(b, j, kv), p.q.head_dim);
  const V least = hn::Set(d, -127.0F);  // 0 times -inf would be no number
  V entropy = hn::Zero(d), left = hn::Zero(d), distance = hn::Zero(d), largest = hn::Zero(d);
  for (std::int64_t j = 0; j < keys; j += lanes) {
    const V log2 = hn::MulSub(load_n(a + j, keys - j), hn::Set(d, factor), hn::Set(d, lse2));
    const V probability = exp2_approx(log2);
    store_n(probability, a + j, keys - j);
    auto counted = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, keys - j)));
    if (j == 0) counted = hn::AndNot(hn::FirstN(d, 1), counted);
    const V x = hn::IfThenElseZero(counted, probability);
    const V away = hn::Sub(hn::Set(d, static_cast<float>(last - j)), hn::Iota(d, 0));
    entropy = hn::NegMulAdd(x, hn::Max(log2, least), entropy);
    left = hn::Add(left, x);
    distance = hn::MulAdd(x, away, distance);
    largest = hn::Max(largest, x);
  }
  return {.a = a,
          .entropy = sum_lanes(entropy) * kLn2,
          .left = sum_lanes(left),
          .distance = sum_lanes(distance),
          .largest = hn::GetLane(hn::MaxOfLanes(d, largest))};
}

void probe_task(const AttendProbe<float>& p, std::int64_t task) {
  const std::int64_t b = task / p.q.heads, h = task % p.q.heads;
  const std::int64_t kv = h / (p.q.heads / p.k.heads);
  const float factor = kLog2E / std::sqrt(static_cast<float>(p.q.head_dim));
  float* row = thread_scratch(p.q.seq);
  probe_detail::probe_head(p, b, h, [&](std::int64_t i) HWY_ATTR {
    return probe_row(p, p.q.at(b, i, h), b, kv, i, factor, p.lse[task * p.q.seq + i] * kLog2E, row);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(probe_task);

void attend_probe_cpu(const AttendProbe<float>& p) {
  parallel_tasks(p.q.batch * p.q.heads, [&](std::int64_t task) {
    HWY_DYNAMIC_DISPATCH(probe_task)(p, task);
  });
}

}  // namespace headloom
#endif
