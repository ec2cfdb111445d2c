#pragma once

#include <string_view>

#include "base/fields.h"
#include "ops/check.h"

namespace headloom {

enum class Activation { kGeluTanh, kRelu, kRelu2 };
template <>
struct EnumNames<Activation> {
  static constexpr std::string_view kNames[] = {"gelu_tanh", "relu", "relu2"};
};

/// Applies the activation to every element: y = f(x).
///
/// Shapes: x, y [R,C]. Writes: y (=).
/// Source: Hendrycks & Gimpel 2016 (gelu, tanh form); So et al. 2021 (relu2 = max(x,0)^2).
template <class T>
struct ActivationForward {
  Activation kind = Activation::kGeluTanh;
  Matrix<const T> x;
  Matrix<T> y;
};

/// Gradient: dx = f'(x) dy. Shapes: x, dy, dx [R,C]. Writes: dx (=), which may be dy's memory.
template <class T>
struct ActivationBackward {
  Activation kind = Activation::kGeluTanh;
  Matrix<const T> x;
  Matrix<const T> dy;
  Matrix<T> dx;
};

template <class T>
void check(const ActivationForward<T>& a) {
  check_matrix("activation_forward", "x", a.x, a.x.rows, a.x.cols);
  check_matrix("activation_forward", "y", a.y, a.x.rows, a.x.cols);
}

template <class T>
void check(const ActivationBackward<T>& a) {
  check_matrix("activation_backward", "x", a.x, a.x.rows, a.x.cols);
  check_matrix("activation_backward", "dy", a.dy, a.x.rows, a.x.cols);
  check_matrix("activation_backward", "dx", a.dx, a.x.rows, a.x.cols);
}

}  // namespace headloom
