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

/// Probabilities of keys 0 ... last for the query at q. Units: factor and lse2 in base 2.
void probability_row(const AttendProbe<float>& p, const float* q, std::int64_t b, std::int64_t kv,
                     std::int64_t last, float factor, float lse2, float* a) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t keys = last + 1;
  for (std::int64_t j = 0; j < keys; ++j) a[j] = dot(q, p.k.at(b, j, kv), p.q.head_dim);
  for (std::int64_t j = 0; j < keys; j += lanes) {
    const V score = hn::Mul(load_n(a + j, keys - j), hn::Set(d, factor));
    store_n(exp2_approx(hn::Sub(score, hn::Set(d, lse2))), a + j, keys - j);
  }
}

void probe_task(const AttendProbe<float>& p, std::int64_t task) {
  const std::int64_t b = task / p.q.heads, h = task % p.q.heads;
  const std::int64_t kv = h / (p.q.heads / p.k.heads);
  const float factor = kLog2E / std::sqrt(static_cast<float>(p.q.head_dim));
  float* row = thread_scratch(p.q.seq);
  probe_detail::probe_head(p, b, h, [&](std::int64_t i, std::vector<double>& a) HWY_ATTR {
    probability_row(p, p.q.at(b, i, h), b, kv, i, factor, p.lse[task * p.q.seq + i] * kLog2E, row);
    std::copy_n(row, i + 1, a.begin());
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
