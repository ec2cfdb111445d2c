#include <algorithm>

#include "base/threads.h"
#include "ops/cpu.h"
#include "ops/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

void column_sum_rows(const Matrix<const float>& x, std::int64_t begin, std::int64_t end,
                     float* sum) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t r = begin; r < end; ++r) {
    const float* row = x.row(r);
    for (std::int64_t c = 0; c < x.cols; c += lanes) {
      const std::int64_t n = x.cols - c;
      store_n(hn::Add(load_n(sum + c, n), load_n(row + c, n)), sum + c, n);
    }
  }
}

/// Squares are summed in float over short runs, the runs in double: as exact as double throughout
/// to about 1e-7 relative, at the speed of float.
double sum_squares_range(const float* x, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kRun = 1024;
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  double total = 0;
  for (std::int64_t run = begin; run < end; run += kRun) {
    const std::int64_t stop = std::min(end, run + kRun);
    V sum = hn::Zero(d);
    for (std::int64_t i = run; i < stop; i += lanes) {
      const V value = load_n(x + i, stop - i);
      sum = hn::MulAdd(value, value, sum);
    }
    total += static_cast<double>(sum_lanes(sum));
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(column_sum_rows);
HWY_EXPORT(sum_squares_range);

void column_sum_cpu(const ColumnSum<float>& s) {
  const std::int64_t n = s.x.cols, parts = thread_count();
  float* sums = thread_scratch(parts * n);
  std::fill_n(sums, parts * n, 0.0F);
  parallel_slices(s.x.rows, [&](std::int64_t begin, std::int64_t end, int part) {
    HWY_DYNAMIC_DISPATCH(column_sum_rows)(s.x, begin, end, sums + part * n);
  });
  for (std::int64_t part = 0; part < parts; ++part) {
    for (std::int64_t c = 0; c < n; ++c) s.sum[c] += sums[part * n + c];
  }
}

void sum_squares_cpu(const SumSquares<float>& s) {
  const int parts = thread_count();
  auto* totals = reinterpret_cast<double*>(thread_scratch(2 * parts));
  std::fill_n(totals, parts, 0.0);
  parallel_slices(s.count, [&](std::int64_t begin, std::int64_t end, int part) {
    totals[part] = HWY_DYNAMIC_DISPATCH(sum_squares_range)(s.x, begin, end);
  });
  *s.result = 0;
  for (int part = 0; part < parts; ++part) *s.result += totals[part];
}

void zero_cpu(const Zero<float>& z) {
  parallel_slices(z.count, [&](std::int64_t begin, std::int64_t end, int) {
    std::fill(z.x + begin, z.x + end, 0.0F);
  });
}

}  // namespace headloom
#endif
