// Cross-entropy: a block to a row of logits, whose gradient takes their place.
#include "ops/cuda_block.cuh"
#include "ops/cuda_kernels.h"

namespace headloom::cuda {
namespace {

using namespace simt;

SIMT_KERNEL(kBlockThreads, 1)
void loss_row(Loss l) {
  SIMT_STATIC_SHARED(float, partial, kBlockWarps);
  const std::int64_t r = block_x();
  float* logits = l.logits.data + r * l.logits.stride;
  const std::int32_t target = l.targets[r];
  const bool counts = target >= 0;
  float top = -INFINITY, sum = 0.0F;
  for (std::int64_t v = thread_x(); v < l.vocab; v += kBlockThreads) top = fmaxf(top, logits[v]);
  top = block_max(top, partial);
  for (std::int64_t v = thread_x(); v < l.vocab; v += kBlockThreads) sum += expf(logits[v] - top);
  const float lse = top + logf(block_sum(sum, partial));
  if (thread_x() == 0) l.losses[r] = counts ? lse - logits[target] : 0.0F;
  if (!l.write_gradient) return;
  barrier();  // the target's logit has been read
  for (std::int64_t v = thread_x(); v < l.logits.cols; v += kBlockThreads) {
    const float p = counts && v < l.vocab ? expf(logits[v] - lse) : 0.0F;
    logits[v] = counts ? l.scale * (p - (v == target ? 1.0F : 0.0F)) : 0.0F;
  }
}

}  // namespace

void cross_entropy(const Loss& args) {
  if (args.logits.rows == 0) return;
  launch("cross_entropy", loss_row,
         {.grid = {static_cast<unsigned>(args.logits.rows)}, .block = {kBlockThreads}}, args);
}

}  // namespace headloom::cuda
