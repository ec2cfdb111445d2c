#include <cmath>

#include "base/threads.h"
#include "bench/materialised.h"
#include "ops/backend.h"
#include "ops/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/materialised_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

/// Turns rows [begin, end) of scores into probabilities; row i keeps its first i + 1, the rest is
/// 0.
void causal_softmax(const Matrix<float>& scores, float scale, std::int64_t begin,
                    std::int64_t end) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = begin; i < end; ++i) {
    float* row = scores.row(i);
    const std::int64_t keys = i + 1;
    float largest = -INFINITY;
    for (std::int64_t j = 0; j < keys; ++j) largest = row[j] > largest ? row[j] : largest;
    V sums = hn::Zero(d);
    for (std::int64_t j = 0; j < keys; j += lanes) {
      const V x = hn::Mul(hn::Sub(load_n(row + j, keys - j), hn::Set(d, largest)),
                          hn::Set(d, scale * kLog2E));
      V e = exp2_approx(x);
      if (keys - j < lanes) {
        e = hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(keys - j)), e);
      }
      sums = hn::Add(sums, e);
      store_n(e, row + j, keys - j);
    }
    const V inverse = hn::Set(d, 1.0F / sum_lanes(sums));
    for (std::int64_t j = 0; j < keys; j += lanes) {
      store_n(hn::Mul(load_n(row + j, keys - j), inverse), row + j, keys - j);
    }
    std::fill(row + keys, row + scores.cols, 0.0F);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(causal_softmax);

namespace {

template <class T>
Matrix<T> rows_of_head(const Heads<T>& x, std::int64_t b, std::int64_t h) {
  return {x.at(b, 0, h), x.seq, x.head_dim, x.seq_stride};
}

}  // namespace

void attend_materialised(const Heads<const float>& q, const Heads<const float>& k,
                         const Heads<const float>& v, const Heads<float>& out,
                         const Matrix<float>& scores) {
  const float scale = 1.0F / std::sqrt(static_cast<float>(q.head_dim));
  const std::int64_t group = q.heads / k.heads;
  for (std::int64_t b = 0; b < q.batch; ++b) {
    for (std::int64_t h = 0; h < q.heads; ++h) {
      cpu_ops().gemm({.a = rows_of_head(q, b, h),
                      .b = rows_of_head(k, b, h / group),
                      .transpose_b = true,
                      .c = scores});
      parallel_slices(q.seq, [&](std::int64_t begin, std::int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(causal_softmax)(scores, scale, begin, end);
      });
      cpu_ops().gemm(
          {.a = scores, .b = rows_of_head(v, b, h / group), .c = rows_of_head(out, b, h)});
    }
  }
}

}  // namespace headloom
#endif
