// AdamW: a thread to a parameter.
#include "ops/cuda_block.cuh"
#include "ops/cuda_kernels.h"

namespace headloom::cuda {
namespace {

using namespace simt;

SIMT_KERNEL(kBlockThreads, 1)
void update(Adam a) {
  for (std::int64_t i = first_item(); i < a.count; i += item_stride()) {
    const float g = a.gradient[i] * a.scale;
    const float m = a.beta1 * a.m[i] + a.rest1 * g;
    const float v = a.beta2 * a.v[i] + a.rest2 * g * g;
    const float p = a.parameter[i];
    const float step = m / a.correct1 / (sqrtf(v / a.correct2) + a.eps) + a.decay * p;
    a.m[i] = m;
    a.v[i] = v;
    a.parameter[i] = p - a.learning_rate * step;
  }
}

}  // namespace

void adamw(const Adam& args) {
  launch("adamw", update, threads_for(args.count), args);
}

}  // namespace headloom::cuda
