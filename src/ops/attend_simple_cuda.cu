// Attention with one thread block per (batch, head): for each query the threads share the keys,
// then the channels. Scores of one query live in shared memory, so T is limited to what fits. This
// is the kernel of the seed; attend_cuda.cu is the one that is fast.
//
// grid (B * NH), block 128, dynamic shared memory T floats.
#include "ops/attend_cuda.h"

namespace headloom::cuda {
namespace {

using namespace simt;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

struct SimpleForward {
  AttendForward<float> args;
  int head_dim;
};

SIMT_FN float warp_max(float v) {
  for (int mask = 16; mask > 0; mask /= 2) v = fmaxf(v, shfl_xor(v, mask));
  return v;
}
SIMT_FN float warp_sum(float v) {
  for (int mask = 16; mask > 0; mask /= 2) v += shfl_xor(v, mask);
  return v;
}

SIMT_KERNEL(kThreads, 1)
void simple_forward(SimpleForward p) {
  const AttendForward<float>& a = p.args;
  const AttendSizes& d = a.sizes;
  const std::int64_t b = block_x() / d.heads, h = block_x() % d.heads;
  const std::int64_t kv = h / (d.heads / d.kv_heads);
  const float* q = a.q.data + b * a.q.batch + h * a.q.head;
  const float* k = a.k.data + b * a.k.batch + kv * a.k.head;
  const float* v = a.v.data + b * a.v.batch + kv * a.v.head;
  float* out = a.out.data + b * a.out.batch + h * a.out.head;
  const float gate = a.gate != nullptr ? a.gate[h] : 1.0F;

  const Shared<float> score = DynamicShared().take<float>((d.seq + 3) / 4 * 4);
  SIMT_STATIC_SHARED(float, partial_max, kWarps);
  SIMT_STATIC_SHARED(float, partial_sum, kWarps);

  for (int t = 0; t < d.seq; ++t) {
    float top = -INFINITY;
    for (int s = thread_x(); s <= t; s += kThreads) {
      float dot = 0.0F;
      for (int i = 0; i < p.head_dim; ++i) dot += q[t * a.q.seq + i] * k[s * a.k.seq + i];
      score[s] = dot * a.scale;
      top = fmaxf(top, dot * a.scale);
    }
    top = warp_max(top);
    if (lane() == 0) partial_max[warp()] = top;
    barrier();
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, partial_max[w]);

    float sum = 0.0F;
    for (int s = thread_x(); s <= t; s += kThreads) {
      const float e = expf(score[s] - top);
      score[s] = e;
      sum += e;
    }
    sum = warp_sum(sum);
    if (lane() == 0) partial_sum[warp()] = sum;
    barrier();
    sum = 0.0F;
    for (int w = 0; w < kWarps; ++w) sum += partial_sum[w];

    for (int i = thread_x(); i < p.head_dim; i += kThreads) {
      float o = 0.0F;
      for (int s = 0; s <= t; ++s) o += score[s] * v[s * a.v.seq + i];
      out[t * a.out.seq + i] = gate * o / sum;
    }
    if (thread_x() == 0) a.lse[static_cast<std::int64_t>(block_x()) * d.seq + t] = top + logf(sum);
    barrier();  // the next query overwrites score
  }
}

}  // namespace

void attend_simple_forward(const AttendForward<float>& args, int head_dim) {
  const LaunchShape shape{
      .grid = {static_cast<unsigned>(args.sizes.batch * args.sizes.heads)},
      .block = {kThreads},
      .dynamic_shared = (static_cast<std::size_t>(args.sizes.seq) + 3) / 4 * 16};
  launch("attend_simple_forward", simple_forward, shape, SimpleForward{args, head_dim});
}

}  // namespace headloom::cuda
