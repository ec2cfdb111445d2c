// What backward needs of each row before anything else, and what a gate gets of all of them.
#include "ops/attend_cuda.h"
#include "ops/cuda_block.cuh"

namespace headloom::cuda {
namespace {

using namespace simt;

template <class T>
struct Products {
  AttendSizes sizes;
  HeadsPointer<const T> a, b;
  int head_dim;
  float* delta;
};
struct GateSums {
  int seq;
  const float* delta;
  float* sums;
};

SIMT_FN float number(float x) {
  return x;
}
SIMT_FN float number(bf16 x) {
  return to_float(x);
}

/// delta[b,h,t] = sum over HS of a * b. One warp to a row.
template <class T>
SIMT_KERNEL(kBlockThreads, 1)
void row_products(Products<T> p) {
  const AttendSizes& d = p.sizes;
  const std::int64_t row = static_cast<std::int64_t>(block_x()) * kBlockWarps + warp();
  if (row >= static_cast<std::int64_t>(d.batch) * d.seq * d.heads) return;  // a whole warp
  const std::int64_t token = row / d.heads, t = token % d.seq, b = token / d.seq;
  const std::int64_t h = row % d.heads;
  const T *left = rows_of(p.a, b, h) + t * p.a.seq, *right = rows_of(p.b, b, h) + t * p.b.seq;
  float sum = 0.0F;
  for (int i = lane(); i < p.head_dim; i += 32) sum += number(left[i]) * number(right[i]);
  sum = warp_sum(sum);
  if (lane() == 0) p.delta[(b * d.heads + h) * d.seq + t] = sum;
}

/// A block to a (batch, head).
SIMT_KERNEL(kBlockThreads, 1)
void gate_sums(GateSums g) {
  SIMT_STATIC_SHARED(float, partial, kBlockWarps);
  const float* delta = g.delta + static_cast<std::int64_t>(block_x()) * g.seq;
  float sum = 0.0F;
  for (int t = thread_x(); t < g.seq; t += kBlockThreads) sum += delta[t];
  sum = block_sum(sum, partial);
  if (thread_x() == 0) g.sums[block_x()] = sum;
}

}  // namespace

template <class T>
void attend_delta(const AttendSizes& d, HeadsPointer<const T> dout, HeadsPointer<const T> out,
                  int head_dim, float* delta) {
  const std::int64_t rows = static_cast<std::int64_t>(d.batch) * d.seq * d.heads;
  const LaunchShape shape{.grid = {static_cast<unsigned>((rows + kBlockWarps - 1) / kBlockWarps)},
                          .block = {kBlockThreads}};
  launch("attend_delta", row_products<T>, shape, Products<T>{d, dout, out, head_dim, delta});
}

void attend_gate_gradient(const AttendSizes& d, const float* delta, float* dgate) {
  launch("attend_gate_gradient", gate_sums,
         LaunchShape{.grid = {static_cast<unsigned>(d.batch * d.heads)}, .block = {kBlockThreads}},
         GateSums{d.seq, delta, dgate});
}

template void attend_delta(const AttendSizes&, HeadsPointer<const float>, HeadsPointer<const float>,
                           int, float*);
template void attend_delta(const AttendSizes&, HeadsPointer<const bf16>, HeadsPointer<const bf16>,
                           int, float*);

}  // namespace headloom::cuda
