#pragma once

#include <cmath>

#include "ops/adamw.h"
#include "ops/number.h"

/// The definition, with g the scaled gradient:
///
///   m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
///   p = p - lr (m / (1 - b1^step) / (sqrt(v / (1 - b2^step)) + eps) + decay p)
namespace headloom {

template <class T>
void adamw_ref(const AdamW<T>& a) {
  using std::sqrt;
  using S = Real<Sum<T>>;
  const S b1 = a.beta1, b2 = a.beta2;
  const S correct1 = 1 - std::pow(a.beta1, static_cast<double>(a.step));
  const S correct2 = 1 - std::pow(a.beta2, static_cast<double>(a.step));
  for (std::int64_t i = 0; i < a.count; ++i) {
    const Sum<T> g = Sum<T>(a.gradient[i]) * S(a.gradient_scale);
    const Sum<T> m = b1 * Sum<T>(a.m[i]) + (1 - b1) * g;
    const Sum<T> v = b2 * Sum<T>(a.v[i]) + (1 - b2) * g * g;
    const Sum<T> p = a.parameter[i];
    const Sum<T> step = m / correct1 / (sqrt(v / correct2) + S(a.eps)) + S(a.weight_decay) * p;
    a.m[i] = static_cast<T>(m);
    a.v[i] = static_cast<T>(v);
    a.parameter[i] = static_cast<T>(p - S(a.learning_rate) * step);
  }
}

}  // namespace headloom
