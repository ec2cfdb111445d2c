// Multiplications of a few rows, as decoding makes them: bound by reading the weights once, which a
// general multiplication that packs its operands first does twice.
#include <algorithm>

#include "base/threads.h"
#include "ops/cpu.h"
#include "ops/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gemm_rows_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

/// y += sum over kCount rows of x[k] b[k].
template <int kCount>
HWY_INLINE void add_rows(const float* x, const Matrix<const float>& b, std::int64_t k, float* y) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float* rows[kCount];
  V factor[kCount];
  for (int i = 0; i < kCount; ++i) {
    rows[i] = b.row(k + i);
    factor[i] = hn::Set(d, x[k + i]);
  }
  for (std::int64_t c = 0; c < b.cols; c += lanes) {
    V sum = load_n(y + c, b.cols - c);
    for (int i = 0; i < kCount; ++i) {
      sum = hn::MulAdd(factor[i], load_n(rows[i] + c, b.cols - c), sum);
    }
    store_n(sum, y + c, b.cols - c);
  }
}

/// y = x[begin, end) times the same rows of B: one stream through memory, y stays in the first
/// cache.
void multiply_rows(const float* x, const Matrix<const float>& b, std::int64_t begin,
                   std::int64_t end, float* y) {
  std::fill_n(y, b.cols, 0.0F);
  std::int64_t k = begin;
  for (; k + 8 <= end; k += 8) add_rows<8>(x, b, k, y);
  for (; k < end; ++k) add_rows<1>(x, b, k, y);
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
HWY_EXPORT(multiply_rows);
HWY_EXPORT(gemm_dots);

/// Each thread multiplies a run of B's rows, which lie together, rather than a run of its columns,
/// which would be read in pieces.
void gemm_row(const Gemm<float>& g, const float* x, float* y) {
  const std::int64_t n = g.c.cols;
  float* partial = thread_scratch(thread_count() * n);
  parallel_slices(g.b.rows, [&](std::int64_t begin, std::int64_t end, int part) {
    HWY_DYNAMIC_DISPATCH(multiply_rows)(x, g.b, begin, end, partial + part * n);
  });
  if (g.bias != nullptr) std::copy_n(g.bias, n, y);
  if (g.bias == nullptr && !g.accumulate) std::fill_n(y, n, 0.0F);
  const std::int64_t parts = std::min<std::int64_t>(g.b.rows, thread_count());
  for (std::int64_t part = 0; part < parts; ++part) {
    for (std::int64_t j = 0; j < n; ++j) y[j] += partial[part * n + j];
  }
}

void gemm_rows_cpu(const Gemm<float>& g) {
  if (!g.transpose_b) {
    for (std::int64_t i = 0; i < g.c.rows; ++i) gemm_row(g, g.a.row(i), g.c.row(i));
    return;
  }
  parallel_slices(g.c.cols, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(gemm_dots)(g, begin, end);
  });
}

}  // namespace headloom
#endif
