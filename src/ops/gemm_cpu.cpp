#include <algorithm>

#include "ops/cpu.h"

namespace headloom {
namespace {

/// Up to so many rows the weights are read straight from memory, once per row.
constexpr std::int64_t kFewRows = 2;

/// With nothing to sum up C is the bias, or zero.
void gemm_of_nothing(const Gemm<float>& g) {
  if (g.accumulate) return;
  for (std::int64_t i = 0; i < g.c.rows; ++i) {
    if (g.bias != nullptr) {
      std::copy_n(g.bias, g.c.cols, g.c.row(i));
    } else {
      std::fill_n(g.c.row(i), g.c.cols, 0.0F);
    }
  }
}

}  // namespace

void gemm_cpu(const Gemm<float>& g) {
  if (g.inner() == 0) {
    gemm_of_nothing(g);
  } else if (g.c.rows <= kFewRows && !g.transpose_a) {
    gemm_rows_cpu(g);
  } else if (g.c.rows > 0 && g.c.cols > 0) {
    gemm_blocks_cpu(g);
  }
}

}  // namespace headloom
