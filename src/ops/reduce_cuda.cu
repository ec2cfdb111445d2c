// Sums and zeros. A sum is cut into the same parts whatever the card, so it has the same bits.
#include "ops/cuda_block.cuh"
#include "ops/cuda_kernels.h"

namespace headloom::cuda {
namespace {

using namespace simt;

struct Fill {
  float* x;
  std::int64_t count;
};
struct Columns {
  Matrix<const float> x;
  float* sum;
};
struct Squares {
  const float* x;
  std::int64_t count;
  double *parts, *result;
};

SIMT_KERNEL(kBlockThreads, 1)
void fill_zero(Fill f) {
  for (std::int64_t i = first_item(); i < f.count; i += item_stride()) f.x[i] = 0.0F;
}

SIMT_KERNEL(kBlockThreads, 1)
void add_columns(Columns s) {
  const std::int64_t c = first_item();
  if (c >= s.x.cols) return;
  float sum = 0.0F;
  for (std::int64_t r = 0; r < s.x.rows; ++r) sum += s.x.data[r * s.x.stride + c];
  s.sum[c] += sum;
}

/// Thread t adds up every kSquareParts-th number from t on.
SIMT_KERNEL(kSquareParts, 1)
void square_parts(Squares s) {
  double sum = 0.0;
  for (std::int64_t i = thread_x(); i < s.count; i += kSquareParts) {
    sum += static_cast<double>(s.x[i]) * static_cast<double>(s.x[i]);
  }
  s.parts[thread_x()] = sum;
}

SIMT_KERNEL(32, 1)
void add_parts(Squares s) {
  if (thread_x() != 0) return;
  double sum = 0.0;
  for (int i = 0; i < kSquareParts; ++i) sum += s.parts[i];
  *s.result = sum;
}

}  // namespace

void zero(float* x, std::int64_t count) {
  launch("zero", fill_zero, threads_for(count), Fill{x, count});
}

void column_sum(Matrix<const float> x, float* sum) {
  launch("column_sum", add_columns, threads_for(x.cols), Columns{x, sum});
}

void sum_squares(const float* x, std::int64_t count, double* parts, double* result) {
  const Squares args{x, count, parts, result};
  launch("square_parts", square_parts, {.grid = {1}, .block = {kSquareParts}}, args);
  launch("add_parts", add_parts, {.grid = {1}, .block = {32}}, args);
}

}  // namespace headloom::cuda
