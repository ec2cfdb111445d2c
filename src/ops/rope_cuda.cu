// Rotary positions: a thread to a pair of one position, in all sequences and heads.
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
  const std::int64_t half = r.x.head_dim / 2, count = r.x.seq * half;
  for (std::int64_t n = first_item(); n < count; n += item_stride()) {
    const std::int64_t i = n % half, t = n / half;
    // In double: a float loses the angle of far positions. One angle serves all sequences and
    // heads.
    const double frequency =
        pow(r.base, -2.0 * static_cast<double>(i) / static_cast<double>(r.x.head_dim));
    const double angle = static_cast<double>(r.first_position + t) * frequency;
    const float cosine = static_cast<float>(cos(angle));
    const float sine = r.sign * static_cast<float>(sin(angle));
    for (std::int64_t b = 0; b < r.x.batch; ++b) {
      for (std::int64_t h = 0; h < r.x.heads; ++h) {
        float* x = r.x.data + b * r.x.batch_stride + t * r.x.seq_stride + h * r.x.head_stride;
        const float u = x[i], v = x[i + half];
        x[i] = u * cosine - v * sine;
        x[i + half] = u * sine + v * cosine;
      }
    }
  }
}

}  // namespace

void rope(const Heads<float>& x, std::int64_t first_position, double base, bool inverse) {
  launch("rope", turn, threads_for(x.seq * x.head_dim / 2),
         Turn{x, first_position, base, inverse ? -1.0F : 1.0F});
}

}  // namespace headloom::cuda
