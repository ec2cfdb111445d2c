// Rotary positions: a thread to a pair.
#include "ops/cuda_block.cuh"
#include "ops/cuda_kernels.h"

namespace headloom::cuda {
namespace {

using namespace simt;

struct Turn {
  Heads<float> x;
  std::int64_t first_position;
  double base;
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
    // In double: a float loses the angle of far positions.
    const double frequency =
        pow(r.base, -2.0 * static_cast<double>(i) / static_cast<double>(r.x.head_dim));
    const double angle = static_cast<double>(r.first_position + t) * frequency;
    const float cosine = static_cast<float>(cos(angle));
    const float sine = r.sign * static_cast<float>(sin(angle));
    const float u = x[i], v = x[i + half];
    x[i] = u * cosine - v * sine;
    x[i + half] = u * sine + v * cosine;
  }
}

}  // namespace

void rope(const Heads<float>& x, std::int64_t first_position, double base, bool inverse) {
  launch("rope", turn, threads_for(x.batch * x.seq * x.heads * x.head_dim / 2),
         Turn{x, first_position, base, inverse ? -1.0F : 1.0F});
}

}  // namespace headloom::cuda
