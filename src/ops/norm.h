#pragma once

#include <string_view>

#include "base/fields.h"
#include "ops/check.h"

namespace headloom {

enum class NormKind { kLayerNorm, kRmsNorm };
template <>
struct EnumNames<NormKind> {
  static constexpr std::string_view kNames[] = {"layernorm", "rmsnorm"};
};

/// Normalises each row, after adding a residual branch to it: sum = x + add, y = norm(sum).
///
/// Shapes: x, add, sum, y [R,C]; gain, bias [C] or null; mean, rstd [R].
/// Writes: y (=); sum (=), only when `add` is given (sum may be x itself); mean (layernorm only)
/// and rstd (=), saved for backward. Source: Ba et al. 2016 (layernorm); Zhang & Sennrich 2019
/// (rmsnorm).
template <class T>
struct NormForward {
  NormKind kind = NormKind::kLayerNorm;
  double eps = 1e-5;
  Matrix<const T> x;
  Matrix<const T> add;
  Matrix<T> sum;
  const T* gain = nullptr;
  const T* bias = nullptr;
  Matrix<T> y;
  T* mean = nullptr;
  T* rstd = nullptr;
};

/// Gradient of NormForward, added to the gradient that reaches the same residual stream directly:
/// dx = dresidual + d norm(x) . dy.
///
/// Shapes: x (forward's sum, or its x when nothing was added), dy, dresidual, dx [R,C].
/// Writes: dx (=), which may be dresidual's memory; dgain, dbias (+=), null where forward had none.
template <class T>
struct NormBackward {
  NormKind kind = NormKind::kLayerNorm;
  Matrix<const T> x;
  const T* gain = nullptr;
  const T* mean = nullptr;
  const T* rstd = nullptr;
  Matrix<const T> dy;
  Matrix<const T> dresidual;
  Matrix<T> dx;
  T* dgain = nullptr;
  T* dbias = nullptr;
};

template <class T>
void check(const NormForward<T>& n) {
  const char* op = "norm_forward";
  check_matrix(op, "x", n.x, n.x.rows, n.x.cols);
  check_matrix(op, "y", n.y, n.x.rows, n.x.cols);
  if (n.add) {
    check_matrix(op, "add", n.add, n.x.rows, n.x.cols);
    check_matrix(op, "sum", n.sum, n.x.rows, n.x.cols);
  }
  check_present(op, "rstd", n.rstd);
  if (n.kind == NormKind::kLayerNorm) check_present(op, "mean", n.mean);
}

template <class T>
void check(const NormBackward<T>& n) {
  const char* op = "norm_backward";
  check_matrix(op, "x", n.x, n.x.rows, n.x.cols);
  check_matrix(op, "dy", n.dy, n.x.rows, n.x.cols);
  check_matrix(op, "dx", n.dx, n.x.rows, n.x.cols);
  if (n.dresidual) check_matrix(op, "dresidual", n.dresidual, n.x.rows, n.x.cols);
  check_present(op, "rstd", n.rstd);
  if (n.kind == NormKind::kLayerNorm) check_present(op, "mean", n.mean);
}

}  // namespace headloom
