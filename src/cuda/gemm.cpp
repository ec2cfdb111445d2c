// Multiplications of the CUDA table: operands rounded when that is asked for, then the platform's.
#include "cuda/platform.h"
#include "ops/cuda_kernels.h"

namespace headloom::cuda {
namespace {

/// Rows of rounded operands begin at multiples of 16 bytes.
std::int64_t padded(std::int64_t cols) {
  return (cols + 7) / 8 * 8;
}

const simt::bf16* rounded(Slot slot, const Matrix<const float>& x) {
  auto* y = scratch<simt::bf16>(slot, x.rows * padded(x.cols));
  round_rows(x, y, padded(x.cols));
  return y;
}

}  // namespace

void gemm(const Gemm<float>& g, Precision precision) {
  if (g.c.rows == 0 || g.c.cols == 0) return;
  Multiply m{.m = g.c.rows,
             .n = g.c.cols,
             .k = g.inner(),
             .a = g.a.data,
             .b = g.b.data,
             .lda = g.a.stride,
             .ldb = g.b.stride,
             .ldc = g.c.stride,
             .transpose_a = g.transpose_a,
             .transpose_b = g.transpose_b,
             .tf32 = precision == Precision::kTf32,
             .c = g.c.data,
             .bias = g.bias,
             .accumulate = g.accumulate};
  if (precision == Precision::kBf16) {
    m.bf16 = true;
    m.a = rounded(Slot::kLeft, g.a);
    m.b = rounded(Slot::kRight, g.b);
    m.lda = padded(g.a.cols);
    m.ldb = padded(g.b.cols);
  }
  platform().multiply(m);
}

void multiply_again(std::int64_t size, int times, Precision precision) {
  const bool bf16 = precision == Precision::kBf16;
  const std::int64_t count = size * size, bytes = bf16 ? 2 : 4;
  const Multiply m{.m = size,
                   .n = size,
                   .k = size,
                   .a = scratch_bytes(Slot::kLeft, static_cast<std::size_t>(count * bytes)),
                   .b = scratch_bytes(Slot::kRight, static_cast<std::size_t>(count * bytes)),
                   .lda = size,
                   .ldb = size,
                   .ldc = size,
                   .bf16 = bf16,
                   .tf32 = precision == Precision::kTf32,
                   .c = scratch<float>(Slot::kPlain, count)};
  for (int i = 0; i < times; ++i) platform().multiply(m);
}

}  // namespace headloom::cuda
