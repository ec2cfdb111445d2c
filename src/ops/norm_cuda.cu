// Norms: a block to a row forward and for dx; for gain and bias a thread to a column of a part of
// the rows, then one to a column of all parts.
#include "ops/cuda_block.cuh"
#include "ops/cuda_kernels.h"

namespace headloom::cuda {
namespace {

using namespace simt;

SIMT_KERNEL(kBlockThreads, 1)
void forward(Norm n) {
  SIMT_STATIC_SHARED(float, partial, kBlockWarps);
  const std::int64_t r = block_x(), cols = n.x.cols;
  const float* x = n.x.data + r * n.x.stride;
  float sum = 0.0F;
  for (std::int64_t c = thread_x(); c < cols; c += kBlockThreads) {
    const float value = n.add.data != nullptr ? x[c] + n.add.data[r * n.add.stride + c] : x[c];
    if (n.add.data != nullptr) n.sum.data[r * n.sum.stride + c] = value;
    sum += value;
  }
  // Each thread reads back what it wrote itself.
  const float* row = n.add.data != nullptr ? n.sum.data + r * n.sum.stride : x;
  const float mean = n.centred ? block_sum(sum, partial) / static_cast<float>(cols) : 0.0F;
  float squares = 0.0F;
  for (std::int64_t c = thread_x(); c < cols; c += kBlockThreads) {
    squares += (row[c] - mean) * (row[c] - mean);
  }
  squares = block_sum(squares, partial) / static_cast<float>(cols);
  const float rstd = 1.0F / sqrtf(squares + n.eps);
  for (std::int64_t c = thread_x(); c < cols; c += kBlockThreads) {
    const float h = (row[c] - mean) * rstd, gained = n.gain != nullptr ? h * n.gain[c] : h;
    n.y.data[r * n.y.stride + c] = n.bias != nullptr ? gained + n.bias[c] : gained;
  }
  if (thread_x() != 0) return;
  if (n.centred) n.mean[r] = mean;
  n.rstd[r] = rstd;
}

SIMT_KERNEL(kBlockThreads, 1)
void backward_x(NormGradient n) {
  SIMT_STATIC_SHARED(float, partial, kBlockWarps);
  const std::int64_t r = block_x(), cols = n.x.cols;
  const float *x = n.x.data + r * n.x.stride, *dy = n.dy.data + r * n.dy.stride;
  const float mean = n.centred ? n.mean[r] : 0.0F, rstd = n.rstd[r];
  float g_sum = 0.0F, gh_sum = 0.0F;
  for (std::int64_t c = thread_x(); c < cols; c += kBlockThreads) {
    const float g = n.gain != nullptr ? dy[c] * n.gain[c] : dy[c];
    g_sum += g;
    gh_sum += g * (x[c] - mean) * rstd;
  }
  const float count = static_cast<float>(cols);
  const float avg_gh = block_sum(gh_sum, partial) / count;
  const float avg_g = n.centred ? block_sum(g_sum, partial) / count : 0.0F;
  for (std::int64_t c = thread_x(); c < cols; c += kBlockThreads) {
    const float g = n.gain != nullptr ? dy[c] * n.gain[c] : dy[c];
    const float direct =
        n.dresidual.data != nullptr ? n.dresidual.data[r * n.dresidual.stride + c] : 0.0F;
    n.dx.data[r * n.dx.stride + c] = direct + rstd * (g - (x[c] - mean) * rstd * avg_gh - avg_g);
  }
}

struct Columns {
  NormGradient args;
  float* parts;  ///< [gain, bias][count][C]
  int count;
};

SIMT_KERNEL(kBlockThreads, 1)
void backward_columns(Columns p) {
  const NormGradient& n = p.args;
  const std::int64_t c = first_item(), cols = n.x.cols;
  if (c >= cols) return;
  float gain = 0.0F, bias = 0.0F;
  const RowRange rows = part_of(n.x.rows, block_y(), p.count);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float dy = n.dy.data[r * n.dy.stride + c], mean = n.centred ? n.mean[r] : 0.0F;
    gain += dy * (n.x.data[r * n.x.stride + c] - mean) * n.rstd[r];
    bias += dy;
  }
  p.parts[block_y() * cols + c] = gain;
  p.parts[(p.count + block_y()) * cols + c] = bias;
}

SIMT_KERNEL(kBlockThreads, 1)
void add_columns(Columns p) {
  const std::int64_t c = first_item(), cols = p.args.x.cols;
  if (c >= cols) return;
  float gain = 0.0F, bias = 0.0F;
  for (int i = 0; i < p.count; ++i) {
    gain += p.parts[i * cols + c];
    bias += p.parts[(p.count + i) * cols + c];
  }
  if (p.args.dgain != nullptr) p.args.dgain[c] += gain;
  if (p.args.dbias != nullptr) p.args.dbias[c] += bias;
}

LaunchShape block_for_each_row(std::int64_t rows) {
  return {.grid = {static_cast<unsigned>(rows)}, .block = {kBlockThreads}};
}

}  // namespace

void norm_forward(const Norm& args) {
  if (args.x.rows == 0) return;
  launch("norm_forward", forward, block_for_each_row(args.x.rows), args);
}

void norm_backward(const NormGradient& args, float* parts) {
  if (args.x.rows == 0) return;
  // Columns first: dx may lie where dresidual does, but never where dy or x do.
  if (args.dgain != nullptr || args.dbias != nullptr) {
    const Columns columns{args, parts, parts_of(args.x.rows)};
    LaunchShape shape = threads_for(args.x.cols);
    shape.grid.y = static_cast<unsigned>(columns.count);
    launch("norm_backward_columns", backward_columns, shape, columns);
    launch("norm_backward_add", add_columns, threads_for(args.x.cols), columns);
  }
  launch("norm_backward_x", backward_x, block_for_each_row(args.x.rows), args);
}

}  // namespace headloom::cuda
