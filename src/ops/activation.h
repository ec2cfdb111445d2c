#pragma once

#include <string_view>

#include "base/fields.h"
#include "ops/check.h"

namespace headloom {

enum class Activation { kGeluTanh, kRelu, kRelu2, kSwiGlu };
template <>
struct EnumNames<Activation> {
  static constexpr std::string_view kNames[] = {"gelu_tanh", "relu", "relu2", "swiglu"};
};

/// True for an activation that multiplies: x then holds [gate | up] side by side.
inline bool is_gated(Activation kind) {
  return kind == Activation::kSwiGlu;
}

/// Applies the activation to every element: y = f(x), or f(gate) * up for a gated one.
///
/// Shapes: y [R,C]; x [R,C], or [R,2C] for a gated one. Writes: y (=).
/// Source: Hendrycks & Gimpel 2016 (gelu, tanh form); So et al. 2021 (relu2 = max(x,0)^2); Shazeer
/// 2020 (swiglu: f = silu).
template <class T>
struct ActivationForward {
  Activation kind = Activation::kGeluTanh;
  Matrix<const T> x;
  Matrix<T> y;
};

/// Gradient: dx = f'(x) dy. Shapes: dy [R,C]; x, dx as forward's x. Writes: dx (=); dy may be dx's
/// last C columns.
template <class T>
struct ActivationBackward {
  Activation kind = Activation::kGeluTanh;
  Matrix<const T> x;
  Matrix<const T> dy;
  Matrix<T> dx;
};

template <class T>
void check(const ActivationForward<T>& a) {
  const std::int64_t cols = is_gated(a.kind) ? 2 * a.y.cols : a.y.cols;
  check_matrix("activation_forward", "x", a.x, a.x.rows, cols);
  check_matrix("activation_forward", "y", a.y, a.x.rows, a.y.cols);
}

template <class T>
void check(const ActivationBackward<T>& a) {
  const std::int64_t cols = is_gated(a.kind) ? 2 * a.dy.cols : a.dy.cols;
  check_matrix("activation_backward", "x", a.x, a.x.rows, cols);
  check_matrix("activation_backward", "dy", a.dy, a.x.rows, a.dy.cols);
  check_matrix("activation_backward", "dx", a.dx, a.x.rows, cols);
}

}  // namespace headloom
