#include <algorithm>
#include <cmath>

#include "base/threads.h"
#include "ops/cpu.h"
#include "ops/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/norm_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

/// Adds the branch to one row and returns the sum of the result.
float add_row(const float* x, const float* add, std::int64_t n, float* sum) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V total = hn::Zero(d);
  for (std::int64_t c = 0; c < n; c += lanes) {
    V value = load_n(x + c, n - c);
    if (add != nullptr) {
      value = hn::Add(value, load_n(add + c, n - c));
      store_n(value, sum + c, n - c);
    }
    total = hn::Add(total, value);
  }
  return sum_lanes(total);
}

float squared_deviation(const float* x, std::int64_t n, float mean) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V centre = hn::Set(d, mean);
  V total = hn::Zero(d);
  std::int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    const V deviation = hn::Sub(hn::LoadU(d, x + c), centre);
    total = hn::MulAdd(deviation, deviation, total);
  }
  float sum = sum_lanes(total);
  for (; c < n; ++c) sum += (x[c] - mean) * (x[c] - mean);
  return sum;
}

void write_row(const NormForward<float>& a, const float* x, float mean, float rstd, float* y) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = a.x.cols;
  for (std::int64_t c = 0; c < n; c += lanes) {
    V h = hn::Mul(hn::Sub(load_n(x + c, n - c), hn::Set(d, mean)), hn::Set(d, rstd));
    if (a.gain != nullptr) h = hn::Mul(h, load_n(a.gain + c, n - c));
    if (a.bias != nullptr) h = hn::Add(h, load_n(a.bias + c, n - c));
    store_n(h, y + c, n - c);
  }
}

void norm_forward_rows(const NormForward<float>& a, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = a.x.cols;
  const bool centred = a.kind == NormKind::kLayerNorm;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* x = a.x.row(r);
    float sum = 0;
    if (a.add || centred) {
      sum = add_row(x, a.add ? a.add.row(r) : nullptr, n, a.add ? a.sum.row(r) : nullptr);
    }
    if (a.add) x = a.sum.row(r);
    const float mean = centred ? sum / static_cast<float>(n) : 0.0F;
    const float variance = squared_deviation(x, n, mean) / static_cast<float>(n);
    const float rstd = 1.0F / std::sqrt(variance + static_cast<float>(a.eps));
    if (centred) a.mean[r] = mean;
    a.rstd[r] = rstd;
    write_row(a, x, mean, rstd, a.y.row(r));
  }
}

/// The gradient of one row; dgain and dbias, where wanted, are this thread's own sums.
void backward_row(const NormBackward<float>& a, std::int64_t r, float* dgain, float* dbias) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = a.x.cols;
  const bool centred = a.kind == NormKind::kLayerNorm;
  const V mean = hn::Set(d, centred ? a.mean[r] : 0.0F), rstd = hn::Set(d, a.rstd[r]);
  const float *x = a.x.row(r), *dy = a.dy.row(r);
  V sum_g = hn::Zero(d), sum_gh = hn::Zero(d);
  for (std::int64_t c = 0; c < n; c += lanes) {
    const V h = hn::Mul(hn::Sub(load_n(x + c, n - c), mean), rstd);
    const V gradient = load_n(dy + c, n - c);
    // Lanes past the row's end hold dy = 0, so what h holds there counts for nothing.
    const V g = a.gain != nullptr ? hn::Mul(gradient, load_n(a.gain + c, n - c)) : gradient;
    if (dgain != nullptr) {
      store_n(hn::MulAdd(gradient, h, load_n(dgain + c, n - c)), dgain + c, n - c);
    }
    if (dbias != nullptr) store_n(hn::Add(gradient, load_n(dbias + c, n - c)), dbias + c, n - c);
    sum_g = hn::Add(sum_g, g);
    sum_gh = hn::MulAdd(g, h, sum_gh);
  }
  const V avg_g = hn::Set(d, centred ? sum_lanes(sum_g) / static_cast<float>(n) : 0.0F);
  const V avg_gh = hn::Set(d, sum_lanes(sum_gh) / static_cast<float>(n));
  const float* residual = a.dresidual ? a.dresidual.row(r) : nullptr;
  float* dx = a.dx.row(r);
  for (std::int64_t c = 0; c < n; c += lanes) {
    const V h = hn::Mul(hn::Sub(load_n(x + c, n - c), mean), rstd);
    V g = load_n(dy + c, n - c);
    if (a.gain != nullptr) g = hn::Mul(g, load_n(a.gain + c, n - c));
    const V centred_g = hn::Sub(hn::NegMulAdd(h, avg_gh, g), avg_g);
    const V direct = residual != nullptr ? load_n(residual + c, n - c) : hn::Zero(d);
    store_n(hn::MulAdd(rstd, centred_g, direct), dx + c, n - c);
  }
}

void norm_backward_rows(const NormBackward<float>& a, std::int64_t begin, std::int64_t end,
                        float* dgain, float* dbias) {
  for (std::int64_t r = begin; r < end; ++r) backward_row(a, r, dgain, dbias);
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(norm_forward_rows);
HWY_EXPORT(norm_backward_rows);

void norm_forward_cpu(const NormForward<float>& a) {
  parallel_slices(a.x.rows, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(norm_forward_rows)(a, begin, end);
  });
}

void norm_backward_cpu(const NormBackward<float>& a) {
  const std::int64_t n = a.x.cols, parts = thread_count();
  float* sums = thread_scratch(2 * parts * n);
  std::fill_n(sums, 2 * parts * n, 0.0F);
  float* gains = a.dgain != nullptr ? sums : nullptr;
  float* biases = a.dbias != nullptr ? sums + parts * n : nullptr;
  parallel_slices(a.x.rows, [&](std::int64_t begin, std::int64_t end, int part) {
    HWY_DYNAMIC_DISPATCH(norm_backward_rows)
    (a, begin, end, gains != nullptr ? gains + part * n : nullptr,
     biases != nullptr ? biases + part * n : nullptr);
  });
  for (std::int64_t part = 0; part < parts; ++part) {
    for (std::int64_t c = 0; c < n; ++c) {
      if (gains != nullptr) a.dgain[c] += gains[part * n + c];
      if (biases != nullptr) a.dbias[c] += biases[part * n + c];
    }
  }
}

}  // namespace headloom
#endif
