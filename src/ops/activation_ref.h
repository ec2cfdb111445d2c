#pragma once

#include <cmath>

#include "ops/activation.h"
#include "ops/number.h"

/// The definition:
///
///   gelu_tanh: f = x/2 (1 + t),  t = tanh(u),  u = sqrt(2/pi) (x + 0.044715 x^3)
///              f' = (1 + t)/2 + x/2 (1 - t^2) sqrt(2/pi) (1 + 3 * 0.044715 x^2)
///   relu:      f = max(x, 0),    f' = [x > 0]
///   relu2:     f = max(x, 0)^2,  f' = 2 max(x, 0)
///   swiglu:    y = f(gate) up,   f = x s,  f' = s + x s (1 - s),  s = 1 / (1 + e^-x)
///              dgate = f'(gate) up dy,     dup = f(gate) dy
namespace headloom {

inline constexpr double kSqrt2OverPi = 0.7978845608028654;
inline constexpr double kGeluCubic = 0.044715;

template <class T>
T activation_value(Activation kind, T x) {
  using std::tanh, std::exp;
  using R = Real<T>;
  if (kind == Activation::kSwiGlu) return x / (R(1) + exp(-x));
  if (kind == Activation::kGeluTanh) {
    return R(0.5) * x * (R(1) + tanh(R(kSqrt2OverPi) * (x + R(kGeluCubic) * x * x * x)));
  }
  const T positive = real_part(x) < 0 ? T(0) : x;  // Not "> 0 ? x : 0": a NaN must stay a NaN.
  return kind == Activation::kRelu ? positive : positive * positive;
}

template <class T>
T activation_slope(Activation kind, T x) {
  using std::tanh, std::exp;
  using R = Real<T>;
  if (kind == Activation::kSwiGlu) {
    const T s = R(1) / (R(1) + exp(-x));
    return s + x * s * (R(1) - s);
  }
  if (kind == Activation::kGeluTanh) {
    const T t = tanh(R(kSqrt2OverPi) * (x + R(kGeluCubic) * x * x * x));
    return R(0.5) * (R(1) + t) +
           R(0.5) * x * (R(1) - t * t) * R(kSqrt2OverPi) * (R(1) + R(3 * kGeluCubic) * x * x);
  }
  if (kind == Activation::kRelu) return real_part(x) > 0 ? T(1) : T(0);
  return real_part(x) < 0 ? T(0) : R(2) * x;
}

template <class T>
void activation_forward_ref(const ActivationForward<T>& a) {
  for (std::int64_t r = 0; r < a.x.rows; ++r) {
    for (std::int64_t c = 0; c < a.y.cols; ++c) {
      a.y(r, c) = activation_value(a.kind, a.x(r, c));
      if (is_gated(a.kind)) a.y(r, c) *= a.x(r, a.y.cols + c);
    }
  }
}

template <class T>
void activation_backward_ref(const ActivationBackward<T>& a) {
  for (std::int64_t r = 0; r < a.x.rows; ++r) {
    for (std::int64_t c = 0; c < a.dy.cols; ++c) {
      const T dy = a.dy(r, c), gate = a.x(r, c);
      if (is_gated(a.kind)) {
        const std::int64_t up = a.dy.cols + c;
        a.dx(r, c) = activation_slope(a.kind, gate) * a.x(r, up) * dy;
        a.dx(r, up) = activation_value(a.kind, gate) * dy;
      } else {
        a.dx(r, c) = activation_slope(a.kind, gate) * dy;
      }
    }
  }
}

}  // namespace headloom
