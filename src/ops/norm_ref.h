#pragma once

#include <cmath>

#include "ops/norm.h"
#include "ops/number.h"

/// The definition. With h_c = (x_c - mean) rstd and y_c = h_c gain_c + bias_c,
///
///   layernorm: mean = avg(x),  rstd = 1 / sqrt(avg((x - mean)^2) + eps)   (two passes over the
///   row) rmsnorm:   mean = 0,       rstd = 1 / sqrt(avg(x^2) + eps)
///
/// and backward, with g_c = dy_c gain_c:
///
///   dx_c = rstd (g_c - h_c avg(g h) - avg(g)),   where the avg(g) term is layernorm's only
///   dgain_c += sum over rows dy_c h_c            dbias_c += sum over rows dy_c
namespace headloom {

template <class T>
void norm_forward_ref(const NormForward<T>& n) {
  using std::sqrt;
  const std::int64_t cols = n.x.cols;
  const auto count = static_cast<Real<Sum<T>>>(cols);
  for (std::int64_t r = 0; r < n.x.rows; ++r) {
    const T* x = n.x.row(r);
    if (n.add) {
      for (std::int64_t c = 0; c < cols; ++c) n.sum(r, c) = x[c] + n.add(r, c);
      x = n.sum.row(r);
    }
    Sum<T> mean = 0, squares = 0;
    if (n.kind == NormKind::kLayerNorm) {
      for (std::int64_t c = 0; c < cols; ++c) mean += Sum<T>(x[c]);
      mean /= count;
      n.mean[r] = static_cast<T>(mean);
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      squares += (Sum<T>(x[c]) - mean) * (Sum<T>(x[c]) - mean);
    }
    const Sum<T> rstd = Real<Sum<T>>(1) / sqrt(squares / count + Real<Sum<T>>(n.eps));
    n.rstd[r] = static_cast<T>(rstd);
    for (std::int64_t c = 0; c < cols; ++c) {
      const Sum<T> h = (Sum<T>(x[c]) - mean) * rstd;
      const Sum<T> gained = n.gain != nullptr ? h * Sum<T>(n.gain[c]) : h;
      n.y(r, c) = static_cast<T>(n.bias != nullptr ? gained + Sum<T>(n.bias[c]) : gained);
    }
  }
}

template <class T>
void norm_backward_ref(const NormBackward<T>& n) {
  const std::int64_t cols = n.x.cols;
  const auto count = static_cast<Real<Sum<T>>>(cols);
  const bool centred = n.kind == NormKind::kLayerNorm;
  for (std::int64_t r = 0; r < n.x.rows; ++r) {
    const Sum<T> mean = centred ? n.mean[r] : T(0), rstd = n.rstd[r];
    const auto h = [&](std::int64_t c) { return (Sum<T>(n.x(r, c)) - mean) * rstd; };
    const auto g = [&](std::int64_t c) {
      return Sum<T>(n.dy(r, c)) * (n.gain != nullptr ? Sum<T>(n.gain[c]) : Sum<T>(1));
    };
    Sum<T> avg_g = 0, avg_gh = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      avg_g += centred ? g(c) : Sum<T>(0);
      avg_gh += g(c) * h(c);
      if (n.dgain != nullptr) n.dgain[c] += static_cast<T>(Sum<T>(n.dy(r, c)) * h(c));
      if (n.dbias != nullptr) n.dbias[c] += n.dy(r, c);
    }
    avg_g /= count;
    avg_gh /= count;
    for (std::int64_t c = 0; c < cols; ++c) {
      const Sum<T> direct = n.dresidual ? Sum<T>(n.dresidual(r, c)) : Sum<T>(0);
      n.dx(r, c) = static_cast<T>(direct + rstd * (g(c) - h(c) * avg_gh - avg_g));
    }
  }
}

}  // namespace headloom
