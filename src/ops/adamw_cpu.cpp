#include <cmath>

#include "base/threads.h"
#include "ops/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

void adamw_range(const AdamW<float>& a, std::int64_t begin, std::int64_t end) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const double correct1 = 1 - std::pow(a.beta1, static_cast<double>(a.step));
  const double correct2 = 1 - std::pow(a.beta2, static_cast<double>(a.step));
  const auto set = [&](double x) HWY_ATTR { return hn::Set(d, static_cast<float>(x)); };
  const V scale = set(a.gradient_scale), b1 = set(a.beta1), rest1 = set(1 - a.beta1);
  const V b2 = set(a.beta2), rest2 = set(1 - a.beta2), eps = set(a.eps);
  const V rate = set(a.learning_rate / correct1), root = set(1 / std::sqrt(correct2));
  const V keep = set(1 - a.learning_rate * a.weight_decay);
  for (std::int64_t i = begin; i < end; i += lanes) {
    const std::int64_t n = end - i;
    const V g = hn::Mul(load_n(a.gradient + i, n), scale);
    const V m = hn::MulAdd(b1, load_n(a.m + i, n), hn::Mul(rest1, g));
    const V v = hn::MulAdd(b2, load_n(a.v + i, n), hn::Mul(rest2, hn::Mul(g, g)));
    const V step = hn::Div(hn::Mul(rate, m), hn::MulAdd(hn::Sqrt(v), root, eps));
    store_n(m, a.m + i, n);
    store_n(v, a.v + i, n);
    store_n(hn::MulSub(keep, load_n(a.parameter + i, n), step), a.parameter + i, n);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(adamw_range);

void adamw_cpu(const AdamW<float>& a) {
  parallel_slices(a.count, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(adamw_range)(a, begin, end);
  });
}

}  // namespace headloom
#endif
