// Copies between layouts and number types: a thread to an element, or to a pair of bf16.
#include "ops/cuda_block.cuh"
#include "ops/cuda_kernels.h"

namespace headloom::cuda {
namespace {

using namespace simt;

struct Copy {
  Heads<const float> from;
  Heads<float> to;
};
struct Pack {
  Heads<const float> from;
  bf16* to;
  std::int64_t dim;
};
struct Unpack {
  const bf16* from;
  std::int64_t dim;
  Heads<float> to;
};
struct Round {
  Matrix<const float> x;
  bf16* y;
  std::int64_t stride;
};

/// Element i of each row of head_dim is thread n's, rows counted as [B,T,heads].
struct Place {
  std::int64_t b, t, h;
};
template <class T>
SIMT_FN Place place_of(std::int64_t row, const Heads<T>& x) {
  return {row / x.heads / x.seq, row / x.heads % x.seq, row % x.heads};
}
template <class T>
SIMT_FN T* row_at(const Heads<T>& x, const Place& p) {
  return x.data + p.b * x.batch_stride + p.t * x.seq_stride + p.h * x.head_stride;
}

SIMT_KERNEL(kBlockThreads, 1)
void copy(Copy c) {
  const std::int64_t dim = c.to.head_dim, count = c.to.batch * c.to.seq * c.to.heads * dim;
  for (std::int64_t n = first_item(); n < count; n += item_stride()) {
    const Place p = place_of(n / dim, c.to);
    row_at(c.to, p)[n % dim] = row_at(c.from, p)[n % dim];
  }
}

SIMT_KERNEL(kBlockThreads, 1)
void pack(Pack p) {
  const std::int64_t pairs = p.dim / 2, real = p.from.head_dim;
  const std::int64_t count = p.from.batch * p.from.seq * p.from.heads * pairs;
  for (std::int64_t n = first_item(); n < count; n += item_stride()) {
    const float* row = row_at(p.from, place_of(n / pairs, p.from));
    const std::int64_t i = n % pairs * 2;
    const float low = i < real ? row[i] : 0.0F, high = i + 1 < real ? row[i + 1] : 0.0F;
    store_4(p.to + 2 * n, pack_bf16(low, high));
  }
}

SIMT_KERNEL(kBlockThreads, 1)
void unpack(Unpack u) {
  const std::int64_t real = u.to.head_dim, count = u.to.batch * u.to.seq * u.to.heads * real;
  for (std::int64_t n = first_item(); n < count; n += item_stride()) {
    const std::int64_t row = n / real, i = n % real;
    row_at(u.to, place_of(row, u.to))[i] = to_float(u.from[row * u.dim + i]);
  }
}

SIMT_KERNEL(kBlockThreads, 1)
void round_pairs(Round r) {
  const std::int64_t pairs = r.stride / 2, count = r.x.rows * pairs;
  for (std::int64_t n = first_item(); n < count; n += item_stride()) {
    const float* row = r.x.data + n / pairs * r.x.stride;
    const std::int64_t i = n % pairs * 2;
    const float low = i < r.x.cols ? row[i] : 0.0F, high = i + 1 < r.x.cols ? row[i + 1] : 0.0F;
    store_4(r.y + 2 * n, pack_bf16(low, high));
  }
}

}  // namespace

void copy_heads(const Heads<const float>& from, const Heads<float>& to) {
  launch("copy_heads", copy, threads_for(to.batch * to.seq * to.heads * to.head_dim),
         Copy{from, to});
}

void pack_heads(const Heads<const float>& from, bf16* to, std::int64_t dim) {
  launch("pack_heads", pack, threads_for(from.batch * from.seq * from.heads * dim / 2),
         Pack{from, to, dim});
}

void unpack_heads(const bf16* from, std::int64_t dim, const Heads<float>& to) {
  launch("unpack_heads", unpack, threads_for(to.batch * to.seq * to.heads * to.head_dim),
         Unpack{from, dim, to});
}

void round_rows(const Matrix<const float>& x, bf16* y, std::int64_t stride) {
  launch("round_rows", round_pairs, threads_for(x.rows * stride / 2), Round{x, y, stride});
}

}  // namespace headloom::cuda
