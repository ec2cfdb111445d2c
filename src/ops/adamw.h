#pragma once

#include "ops/check.h"

namespace headloom {

/// Updates parameters by AdamW with decoupled weight decay.
///
/// Shapes: parameter, gradient, m, v [count].
/// Writes: parameter, m, v (=). Units: step counts from 1; gradient_scale multiplies the gradient
/// before anything else (the clip factor).
/// Source: Loshchilov & Hutter 2019, algorithm 2.
template <class T>
struct AdamW {
  T* parameter = nullptr;
  const T* gradient = nullptr;
  T* m = nullptr;
  T* v = nullptr;
  std::int64_t count = 0;
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;
  std::int64_t step = 1;
};

template <class T>
void check(const AdamW<T>& a) {
  check_present("adamw", "parameter", a.parameter);
  check_present("adamw", "gradient", a.gradient);
  check_present("adamw", "m", a.m);
  check_present("adamw", "v", a.v);
  if (a.step < 1) fail("adamw: step {} but steps count from 1", a.step);
}

}  // namespace headloom
