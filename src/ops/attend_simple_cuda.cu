// Attention with one thread block per head, fp32. Forward: for each query the threads share the
// keys, then the channels; the scores of one query live in shared memory, so T is limited to what
// fits. Backward: a block owns one key head, so that nothing else adds to its dk and dv. This is
// the kernel of the seed; attend_cuda.cu is the one that is fast, attend_rows_cuda.cu what a model
// runs in fp32.
//
// grid (B * NH), backward (B * KVH); block 128; dynamic shared memory one row of T floats, backward
// two.
#include "ops/attend_cuda.h"
#include "ops/cuda_block.cuh"

namespace headloom::cuda {
namespace {

using namespace simt;

constexpr int kThreads = kBlockThreads;

using SimpleForward = AnyHeadDim<AttendForward<float>>;
using SimpleBackward = AnyHeadDim<AttendBackward<float>>;

SIMT_FN float dot(const float* a, const float* b, int n) {
  float sum = 0.0F;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

SIMT_KERNEL(kThreads, 1)
void simple_forward(SimpleForward p) {
  const AttendForward<float>& a = p.args;
  const AttendSizes& d = a.sizes;
  const std::int64_t b = block_x() / d.heads, h = block_x() % d.heads;
  const std::int64_t kv = h / (d.heads / d.kv_heads);
  const float *q = rows_of(a.q, b, h), *k = rows_of(a.k, b, kv), *v = rows_of(a.v, b, kv);
  float* out = rows_of(a.out, b, h);
  const float gate = gate_of(a.gate, h);
  const int queries = d.queries >= 0 ? d.queries : d.seq;

  const Shared<float> score = DynamicShared().take<float>((d.seq + 3) / 4 * 4);
  SIMT_STATIC_SHARED(float, partial, kBlockWarps);

  for (int t = 0; t < queries; ++t) {
    const int keys = d.seq - queries + t + 1;
    float top = -INFINITY;
    for (int s = thread_x(); s < keys; s += kThreads) {
      const float x = dot(q + t * a.q.seq, k + s * a.k.seq, p.head_dim) * a.scale;
      score[s] = x;
      top = fmaxf(top, x);
    }
    top = block_max(top, partial);
    float sum = 0.0F;
    for (int s = thread_x(); s < keys; s += kThreads) {
      const float e = expf(score[s] - top);
      score[s] = e;
      sum += e;
    }
    sum = block_sum(sum, partial);
    for (int i = thread_x(); i < p.head_dim; i += kThreads) {
      float o = 0.0F;
      for (int s = 0; s < keys; ++s) o += score[s] * v[s * a.v.seq + i];
      out[t * a.out.seq + i] = gate * o / sum;
    }
    if (thread_x() == 0 && a.lse != nullptr) {
      a.lse[static_cast<std::int64_t>(block_x()) * queries + t] = top + logf(sum);
    }
    barrier();  // the next query overwrites score
  }
}

/// Every thread owns channels i, i + 128, ... of dk and dv, and of each query's dq.
SIMT_KERNEL(kThreads, 1)
void simple_backward(SimpleBackward p) {
  const AttendBackward<float>& a = p.args;
  const AttendSizes& d = a.sizes;
  const int group = d.heads / d.kv_heads;
  const std::int64_t b = block_x() / d.kv_heads, kv = block_x() % d.kv_heads;
  const float *k = rows_of(a.k, b, kv), *v = rows_of(a.v, b, kv);
  float *dk = rows_of(a.dk, b, kv), *dv = rows_of(a.dv, b, kv);

  DynamicShared memory;
  const Shared<float> prob = memory.take<float>((d.seq + 3) / 4 * 4);
  const Shared<float> slope = memory.take<float>((d.seq + 3) / 4 * 4);
  SIMT_STATIC_SHARED(float, partial, kBlockWarps);

  for (int i = thread_x(); i < p.head_dim; i += kThreads) {
    for (int s = 0; s < d.seq; ++s) dk[s * a.dk.seq + i] = dv[s * a.dv.seq + i] = 0.0F;
  }
  for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    const float gate = gate_of(a.gate, h);
    const std::int64_t statistics = (b * d.heads + h) * d.seq;
    float gate_sum = 0.0F;
    for (int t = 0; t < d.seq; ++t) {
      const float* q = rows_of(a.q, b, h) + t * a.q.seq;
      const float* dout = rows_of(a.dout, b, h) + t * a.dout.seq;
      const float delta = dot(dout, rows_of(a.out, b, h) + t * a.out.seq, p.head_dim);
      for (int s = thread_x(); s <= t; s += kThreads) {
        const float x = dot(q, k + s * a.k.seq, p.head_dim) * a.scale;
        const float probability = expf(x - a.lse[statistics + t]);
        const float dp = dot(dout, v + s * a.v.seq, p.head_dim);
        prob[s] = gate * probability;
        slope[s] = probability * (gate * dp - delta) * a.scale;
        gate_sum += probability * dp;
      }
      barrier();
      float* dq = rows_of(a.dq, b, h) + t * a.dq.seq;
      for (int i = thread_x(); i < p.head_dim; i += kThreads) {
        float sum = 0.0F;
        for (int s = 0; s <= t; ++s) {
          sum += slope[s] * k[s * a.k.seq + i];
          dk[s * a.dk.seq + i] += slope[s] * q[i];
          dv[s * a.dv.seq + i] += prob[s] * dout[i];
        }
        dq[i] = sum;
      }
      barrier();  // the next query overwrites prob and slope
    }
    gate_sum = block_sum(gate_sum, partial);
    if (thread_x() == 0 && a.dgate != nullptr) a.dgate[b * d.heads + h] = gate_sum;
  }
}

}  // namespace

void attend_simple_forward(const AttendForward<float>& args, int head_dim) {
  if (args.sizes.batch == 0 || args.sizes.seq == 0) return;
  const LaunchShape shape{
      .grid = {static_cast<unsigned>(args.sizes.batch * args.sizes.heads)},
      .block = {kThreads},
      .dynamic_shared = (static_cast<std::size_t>(args.sizes.seq) + 3) / 4 * 16};
  launch("attend_simple_forward", simple_forward, shape, SimpleForward{args, head_dim});
}

void attend_simple_backward(const AttendBackward<float>& args, int head_dim) {
  if (args.sizes.batch == 0 || args.sizes.seq == 0) return;
  const LaunchShape shape{
      .grid = {static_cast<unsigned>(args.sizes.batch * args.sizes.kv_heads)},
      .block = {kThreads},
      .dynamic_shared = (static_cast<std::size_t>(args.sizes.seq) + 3) / 4 * 32};
  launch("attend_simple_backward", simple_backward, shape, SimpleBackward{args, head_dim});
}

}  // namespace headloom::cuda
