#pragma once

#include <algorithm>
#include <complex>

#include "ops/number.h"
#include "ops/reduce.h"

namespace headloom {

template <class T>
void column_sum_ref(const ColumnSum<T>& s) {
  for (std::int64_t c = 0; c < s.x.cols; ++c) {
    Sum<T> sum = s.sum[c];
    for (std::int64_t r = 0; r < s.x.rows; ++r) sum += Sum<T>(s.x(r, c));
    s.sum[c] = static_cast<T>(sum);
  }
}

template <class T>
void sum_squares_ref(const SumSquares<T>& s) {
  double sum = 0;
  for (std::int64_t i = 0; i < s.count; ++i) sum += std::norm(Sum<T>(s.x[i]));
  *s.result = sum;
}

template <class T>
void zero_ref(const Zero<T>& z) {
  std::fill(z.x, z.x + z.count, T(0));
}

}  // namespace headloom
