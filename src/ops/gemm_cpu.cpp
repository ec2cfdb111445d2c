#include <dnnl.h>

#include <algorithm>

#include "base/threads.h"
#include "ops/cpu.h"

namespace headloom {
namespace {

/// Up to so many rows the weights are read straight from memory, once per row.
constexpr std::int64_t kFewRows = 2;

/// oneDNN adds into C, so a bias goes there first.
void spread_bias(const Gemm<float>& g) {
  parallel_slices(g.c.rows, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) std::copy_n(g.bias, g.c.cols, g.c.row(i));
  });
}

}  // namespace

void gemm_cpu(const Gemm<float>& g) {
  if (g.c.rows == 0 || g.c.cols == 0) return;
  if (g.c.rows <= kFewRows && !g.transpose_a) {
    gemm_rows_cpu(g);
    return;
  }
  const bool has_bias = g.bias != nullptr;
  if (has_bias) spread_bias(g);
  const float beta = g.accumulate || has_bias ? 1.0F : 0.0F;
  const dnnl_status_t status = dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N',
                                          g.c.rows, g.c.cols, g.inner(), 1.0F, g.a.data, g.a.stride,
                                          g.b.data, g.b.stride, beta, g.c.data, g.c.stride);
  if (status != dnnl_success) {
    fail("gemm: oneDNN refused [{}, {}] = [{} x {}], status {}", g.c.rows, g.c.cols, g.c.rows,
         g.inner(), static_cast<int>(status));
  }
}

}  // namespace headloom
