// Multiplications of a few rows, as decoding makes them: bound by reading the weights once, which a
// general multiplication that packs its operands first does twice.
#include <algorithm>

#include "base/threads.h"
#include "ops/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gemm_rows_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

/// y[c] += sum over kCount rows of x[k] b[k][c] for c < n.
template <int kCount>
HWY_INLINE void add_rows(const float* x, const Matrix<const float>& b, std::int64_t k,
                         std::int64_t begin, std::int64_t end, float* y) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float* rows[kCount];
  V factor[kCount];
  for (int i = 0; i < kCount; ++i) {
    rows[i] = b.row(k + i);
    factor[i] = hn::Set(d, x[k + i]);
  }
  for (std::int64_t c = begin; c < end; c += lanes) {
    V sum = load_n(y + c, end - c);
    for (int i = 0; i < kCount; ++i) {
      sum = hn::MulAdd(factor[i], load_n(rows[i] + c, end - c), sum);
    }
    store_n(sum, y + c, end - c);
  }
}

/// Columns [begin, end) of C = A B: the rows of B are streams, C stays in the first cache.
void gemm_columns(const Gemm<float>& g, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = 0; i < g.c.rows; ++i) {
    float* y = g.c.row(i);
    const float* x = g.a.row(i);
    if (g.bias != nullptr) {
      std::copy(g.bias + begin, g.bias + end, y + begin);
    } else if (!g.accumulate) {
      std::fill(y + begin, y + end, 0.0F);
    }
    std::int64_t k = 0;
    for (; k + 4 <= g.b.rows; k += 4) add_rows<4>(x, g.b, k, begin, end, y);
    for (; k < g.b.rows; ++k) add_rows<1>(x, g.b, k, begin, end, y);
  }
}

/// Columns [begin, end) of C = A B^T: each is the product of two rows.
void gemm_dots(const Gemm<float>& g, std::int64_t begin, std::int64_t end) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = g.b.cols;
  for (std::int64_t i = 0; i < g.c.rows; ++i) {
    const float* x = g.a.row(i);
    for (std::int64_t j = begin; j < end; ++j) {
      const float* w = g.b.row(j);
      V sum0 = hn::Zero(d), sum1 = hn::Zero(d);
      std::int64_t k = 0;
      for (; k + 2 * lanes <= n; k += 2 * lanes) {
        sum0 = hn::MulAdd(hn::LoadU(d, x + k), hn::LoadU(d, w + k), sum0);
        sum1 = hn::MulAdd(hn::LoadU(d, x + k + lanes), hn::LoadU(d, w + k + lanes), sum1);
      }
      for (; k < n; k += lanes) sum0 = hn::MulAdd(load_n(x + k, n - k), load_n(w + k, n - k), sum0);
      const float sum = sum_lanes(hn::Add(sum0, sum1));
      float& c = g.c(i, j);
      c = sum + (g.accumulate ? c : g.bias != nullptr ? g.bias[j] : 0.0F);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(gemm_columns);
HWY_EXPORT(gemm_dots);

void gemm_rows_cpu(const Gemm<float>& g) {
  parallel_slices(g.c.cols, [&](std::int64_t begin, std::int64_t end, int) {
    if (g.transpose_b) {
      HWY_DYNAMIC_DISPATCH(gemm_dots)(g, begin, end);
    } else {
      HWY_DYNAMIC_DISPATCH(gemm_columns)(g, begin, end);
    }
  });
}

}  // namespace headloom
#endif
