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
  float *sum, *parts;
  int count;  ///< of parts
};
struct Squares {
  const float* x;
  std::int64_t count;
  double *parts, *result;
  int blocks;
};

SIMT_KERNEL(kBlockThreads, 1)
void fill_zero(Fill f) {
  for (std::int64_t i = first_item(); i < f.count; i += item_stride()) f.x[i] = 0.0F;
}

SIMT_KERNEL(kBlockThreads, 1)
void add_rows(Columns s) {
  const std::int64_t c = first_item();
  if (c >= s.x.cols) return;
  float sum = 0.0F;
  const RowRange rows = part_of(s.x.rows, block_y(), s.count);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) sum += s.x.data[r * s.x.stride + c];
  s.parts[block_y() * s.x.cols + c] = sum;
}

SIMT_KERNEL(kBlockThreads, 1)
void add_columns(Columns s) {
  const std::int64_t c = first_item();
  if (c >= s.x.cols) return;
  float sum = 0.0F;
  for (int i = 0; i < s.count; ++i) sum += s.parts[i * s.x.cols + c];
  s.sum[c] += sum;
}

/// The sum over the block, in the order of its threads; thread 0 has it.
SIMT_FN double sum_of_block(double v, const Shared<double>& all) {
  all[thread_x()] = v;
  barrier();
  double sum = 0.0;
  if (thread_x() == 0) {
    for (int i = 0; i < kBlockThreads; ++i) sum += all[i];
  }
  return sum;
}

SIMT_KERNEL(kBlockThreads, 1)
void square_parts(Squares s) {
  SIMT_STATIC_SHARED(double, all, kBlockThreads);
  double sum = 0.0;
  for (std::int64_t i = first_item(); i < s.count; i += item_stride()) {
    sum += static_cast<double>(s.x[i]) * static_cast<double>(s.x[i]);
  }
  sum = sum_of_block(sum, all);
  if (thread_x() == 0) s.parts[block_x()] = sum;
}

SIMT_KERNEL(kBlockThreads, 1)
void add_parts(Squares s) {
  SIMT_STATIC_SHARED(double, all, kBlockThreads);
  double sum = 0.0;
  for (int i = thread_x(); i < s.blocks; i += kBlockThreads) sum += s.parts[i];
  sum = sum_of_block(sum, all);
  if (thread_x() == 0) *s.result = sum;
}

}  // namespace

void zero(float* x, std::int64_t count) {
  launch("zero", fill_zero, threads_for(count), Fill{x, count});
}

void column_sum(Matrix<const float> x, float* sum, float* parts) {
  const Columns args{x, sum, parts, parts_of(x.rows)};
  LaunchShape shape = threads_for(x.cols);
  shape.grid.y = static_cast<unsigned>(args.count);
  launch("column_sum", add_rows, shape, args);
  launch("column_sum_add", add_columns, threads_for(x.cols), args);
}

void sum_squares(const float* x, std::int64_t count, double* parts, double* result) {
  const std::int64_t blocks = (count + kBlockThreads - 1) / kBlockThreads;
  const Squares args{x, count, parts, result,
                     static_cast<int>(blocks < 1              ? 1
                                      : blocks < kSquareParts ? blocks
                                                              : kSquareParts)};
  launch("square_parts", square_parts,
         {.grid = {static_cast<unsigned>(args.blocks)}, .block = {kBlockThreads}}, args);
  launch("add_parts", add_parts, {.grid = {1}, .block = {kBlockThreads}}, args);
}

}  // namespace headloom::cuda
