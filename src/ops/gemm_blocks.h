#pragma once

#include <cstdint>

#include "ops/gemm.h"

namespace headloom {

/// One operand of a multiplication as lines (rows of op(A), columns of op(B)) along the inner
/// dimension. Units: strides in floats; one of the two is 1.
struct GemmOperand {
  const float* data = nullptr;
  std::int64_t lines = 0;
  std::int64_t line_stride = 0;
  std::int64_t depth_stride = 0;

  const float* at(std::int64_t line, std::int64_t depth) const {
    return data + line * line_stride + depth * depth_stride;
  }
};

/// A multiplication and how C is cut into pieces, one task each.
struct GemmPlan {
  GemmOperand a, b;
  std::int64_t depth = 0;  ///< inner dimension
  Matrix<float> c;
  bool accumulate = false;
  const float* bias = nullptr;
  bool by_rows = true;     ///< pieces are runs of C's rows; otherwise of its columns
  std::int64_t piece = 0;  ///< rows or columns in a piece
  std::int64_t pieces = 0;
};

}  // namespace headloom
