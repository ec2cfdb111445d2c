#pragma once

#include "ops/check.h"

namespace headloom {

/// Adds up the rows of a matrix: sum[c] += sum_r x[r,c]. The gradient of a bias.
///
/// Shapes: x [R,C]; sum [C]. Writes: sum (+=). Determinism: bitwise repeatable for a thread count.
template <class T>
struct ColumnSum {
  Matrix<const T> x;
  T* sum = nullptr;
};

/// Adds up squares in double precision: *result = sum_i x_i^2.
///
/// Shapes: x [count]. Writes: result (=), in the host's memory. Determinism: bitwise repeatable for
/// a thread count.
template <class T>
struct SumSquares {
  const T* x = nullptr;
  std::int64_t count = 0;
  double* result = nullptr;
};

/// Sets numbers to zero. Writes: x (=). Shapes: x [count].
template <class T>
struct Zero {
  T* x = nullptr;
  std::int64_t count = 0;
};

template <class T>
void check(const ColumnSum<T>& s) {
  check_matrix("column_sum", "x", s.x, s.x.rows, s.x.cols);
  check_present("column_sum", "sum", s.sum);
}

template <class T>
void check(const SumSquares<T>& s) {
  if (s.count > 0) check_present("sum_squares", "x", s.x);
  check_present("sum_squares", "result", s.result);
}

template <class T>
void check(const Zero<T>& z) {
  if (z.count > 0) check_present("zero", "x", z.x);
}

}  // namespace headloom
