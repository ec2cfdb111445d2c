#pragma once

#include <cmath>

#include "ops/cross_entropy.h"
#include "ops/number.h"

namespace headloom {

template <class T>
void cross_entropy_ref(const CrossEntropy<T>& c) {
  check_targets(c.targets, c.logits.rows, c.vocab);
  using std::exp, std::log;
  for (std::int64_t r = 0; r < c.logits.rows; ++r) {
    T* logits = c.logits.row(r);
    const std::int32_t target = c.targets[r];
    Sum<T> largest = -INFINITY, total = 0;
    for (std::int64_t v = 0; v < c.vocab; ++v) {
      if (!(real_part(logits[v]) <= real_part(largest))) largest = logits[v];
    }
    for (std::int64_t v = 0; v < c.vocab; ++v) total += exp(Sum<T>(logits[v]) - largest);
    const Sum<T> lse = largest + log(total);
    const bool counts = target != kIgnoredTarget;
    c.losses[r] = counts ? static_cast<T>(lse - Sum<T>(logits[target])) : T(0);
    if (!c.write_gradient) continue;
    const Real<Sum<T>> scale = counts ? c.gradient_scale : 0;
    for (std::int64_t v = 0; v < c.logits.cols; ++v) {
      const Sum<T> p = v < c.vocab && counts ? exp(Sum<T>(logits[v]) - lse) : Sum<T>(0);
      logits[v] = static_cast<T>(scale * (p - Sum<T>(v == target && counts ? 1 : 0)));
    }
  }
}

}  // namespace headloom
