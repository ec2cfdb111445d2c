#pragma once

#include "ops/check.h"

namespace headloom {

/// Multiplies matrices: C = op(A) op(B) + bias, or C += op(A) op(B).
///
/// Shapes: op(A) [M,K], op(B) [K,N], C [M,N], bias [N] or null; op transposes when asked. Rows may
/// be strided, so a slice of columns (one head) is as good as a whole matrix. Writes: c (=), or c
/// (+=) with `accumulate`; a bias goes with = only. Determinism: the same shapes and threads give
/// the same bits; row i of C does not depend on the other rows of op(A).
template <class T>
struct Gemm {
  Matrix<const T> a;
  bool transpose_a = false;
  Matrix<const T> b;
  bool transpose_b = false;
  Matrix<T> c;
  bool accumulate = false;
  const T* bias = nullptr;

  std::int64_t inner() const { return transpose_a ? a.rows : a.cols; }
};

template <class T>
void check(const Gemm<T>& g) {
  const std::int64_t k = g.inner();
  check_matrix("gemm", "a", g.a, g.transpose_a ? k : g.c.rows, g.transpose_a ? g.c.rows : k);
  check_matrix("gemm", "b", g.b, g.transpose_b ? g.c.cols : k, g.transpose_b ? k : g.c.cols);
  check_matrix("gemm", "c", g.c, g.c.rows, g.c.cols);
  if (g.accumulate && g.bias != nullptr) fail("gemm: a bias cannot go with accumulate");
}

}  // namespace headloom
