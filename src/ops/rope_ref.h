#pragma once

#include <cmath>

#include "ops/number.h"
#include "ops/rope.h"

/// The definition, for a pair (u, v) = (x_i, x_{i + HS/2}) at position p:
///
///   angle = p base^(-2i/HS)      u' = u cos - v sin      v' = u sin + v cos
///
/// A rotation's gradient is the rotation back: the angle with the other sign.
namespace headloom {

/// Angle of pair i from one position to the next. Units: radians.
inline double rope_frequency(std::int64_t i, std::int64_t head_dim, double base) {
  return std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
}

template <class T>
void rope_ref(const Rope<T>& r) {
  const std::int64_t half = r.x.head_dim / 2;
  for (std::int64_t b = 0; b < r.x.batch; ++b) {
    for (std::int64_t t = 0; t < r.x.seq; ++t) {
      for (std::int64_t h = 0; h < r.x.heads; ++h) {
        T* x = r.x.at(b, t, h);
        for (std::int64_t i = 0; i < half; ++i) {
          const double angle =
              static_cast<double>(r.first_position + t) * rope_frequency(i, r.x.head_dim, r.base);
          const auto cosine = static_cast<Real<T>>(std::cos(angle));
          const auto sine = static_cast<Real<T>>(r.inverse ? -std::sin(angle) : std::sin(angle));
          const T u = x[i], v = x[i + half];
          x[i] = u * cosine - v * sine;
          x[i + half] = u * sine + v * cosine;
        }
      }
    }
  }
}

}  // namespace headloom
