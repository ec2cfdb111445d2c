// Rotary positions: a thread to a pair.
#include "ops/cuda_block.cuh"
#include "ops/cuda_kernels.h"

namespace headloom::cuda {
namespace {

using namespace simt;

struct Turn {
  Heads<float> x;
  std::int64_t first_position;
  float log2_base;
  float sign;
};

SIMT_KERNEL(kBlockThreads, 1)
void turn(Turn r) {
  const std::int64_t half = r.x.head_dim / 2;
  const std::int64_t count = r.x.batch * r.x.seq * r.x.heads * half;
  for (std::int64_t n = first_item(); n < count; n += item_stride()) {
    const std::int64_t i = n % half, h = n / half % r.x.heads, row = n / half / r.x.heads;
    const std::int64_t t = row % r.x.seq, b = row / r.x.seq;
    float* x = r.x.data + b * r.x.batch_stride + t * r.x.seq_stride + h * r.x.head_stride;
    const float frequency =
        exp2f(-2.0F * static_cast<float>(i) / static_cast<float>(r.x.head_dim) * r.log2_base);
    const float angle = static_cast<float>(r.first_position + t) * frequency;
    const float cosine = cosf(angle), sine = r.sign * sinf(angle);
    const float u = x[i], v = x[i + half];
    x[i] = u * cosine - v * sine;
    x[i + half] = u * sine + v * cosine;
  }
}

}  // namespace

void rope(const Heads<float>& x, std::int64_t first_position, float base, bool inverse) {
  launch("rope", turn, threads_for(x.batch * x.seq * x.heads * x.head_dim / 2),
         Turn{x, first_position, log2f(base), inverse ? -1.0F : 1.0F});
}

}  // namespace headloom::cuda
