#pragma once

#include "ops/gemm.h"
#include "ops/number.h"

namespace headloom {

/// c[i,j] = sum_k a[i,k] b[k,j] + bias[j]
template <class T>
void gemm_ref(const Gemm<T>& g) {
  for (std::int64_t i = 0; i < g.c.rows; ++i) {
    for (std::int64_t j = 0; j < g.c.cols; ++j) {
      Sum<T> sum = g.accumulate ? g.c(i, j) : g.bias != nullptr ? g.bias[j] : T(0);
      for (std::int64_t k = 0; k < g.inner(); ++k) {
        const T a = g.transpose_a ? g.a(k, i) : g.a(i, k);
        const T b = g.transpose_b ? g.b(j, k) : g.b(k, j);
        sum += Sum<T>(a) * Sum<T>(b);
      }
      g.c(i, j) = static_cast<T>(sum);
    }
  }
}

}  // namespace headloom
