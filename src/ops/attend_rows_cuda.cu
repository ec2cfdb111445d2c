// Attention row by row, fp32, any head_dim: what the seed's kernel does, but with a block to 16
// queries, and backward to 16 queries (dq) or 16 keys (dk, dv), so that a card has work for all of
// its processors. A block owns what it writes: no atomics, the same bits every time.
//
// Each row goes in two steps: the threads share out the row's keys (or, for dk and dv, a key's
// queries) and leave a number for each in shared memory, then they share out the channels.
#include "ops/attend_cuda.h"
#include "ops/cuda_block.cuh"

namespace headloom::cuda {
namespace {

using namespace simt;

constexpr int kRowsOfABlock = 16;

struct RowsBackward {
  AttendBackward<float> args;
  int head_dim;
};

SIMT_FN float dot(const float* a, const float* b, int n) {
  float sum = 0.0F;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// Everything about one query head of one sequence.
struct Head {
  const float *q, *k, *v, *dout, *lse, *delta;
  float gate;
};
SIMT_FN Head head_of(const AttendBackward<float>& a, std::int64_t b, std::int64_t h) {
  const AttendSizes& d = a.sizes;
  const std::int64_t kv = h / (d.heads / d.kv_heads), rows = (b * d.heads + h) * d.seq;
  return {rows_of(a.q, b, h), rows_of(a.k, b, kv), rows_of(a.v, b, kv), rows_of(a.dout, b, h),
          a.lse + rows,       a.delta + rows,      gate_of(a.gate, h)};
}

struct Slope {
  float probability, score;  ///< P, and dL/dscore times the scale
};
SIMT_FN Slope slope_of(const AttendBackward<float>& a, const Head& head, int t, int s, int n) {
  const float x = dot(head.q + t * a.q.seq, head.k + s * a.k.seq, n) * a.scale;
  const float probability = expf(x - head.lse[t]);
  const float dp = dot(head.dout + t * a.dout.seq, head.v + s * a.v.seq, n);
  return {probability, probability * (head.gate * dp - head.delta[t]) * a.scale};
}

SIMT_KERNEL(kBlockThreads, 1)
void rows_dq(RowsBackward p) {
  const AttendBackward<float>& a = p.args;
  const AttendSizes& d = a.sizes;
  const std::int64_t b = block_x() / d.heads, h = block_x() % d.heads;
  const Head head = head_of(a, b, h);
  const Shared<float> slope = DynamicShared().take<float>((d.seq + 3) / 4 * 4);
  const int first = block_y() * kRowsOfABlock;
  for (int t = first; t < first + kRowsOfABlock && t < d.seq; ++t) {
    for (int s = thread_x(); s <= t; s += kBlockThreads) {
      slope[s] = slope_of(a, head, t, s, p.head_dim).score;
    }
    barrier();
    float* dq = rows_of(a.dq, b, h) + t * a.dq.seq;
    for (int i = thread_x(); i < p.head_dim; i += kBlockThreads) {
      float sum = 0.0F;
      for (int s = 0; s <= t; ++s) sum += slope[s] * head.k[s * a.k.seq + i];
      dq[i] = sum;
    }
    barrier();  // the next query overwrites slope
  }
}

SIMT_KERNEL(kBlockThreads, 1)
void rows_dkv(RowsBackward p) {
  const AttendBackward<float>& a = p.args;
  const AttendSizes& d = a.sizes;
  const int group = d.heads / d.kv_heads;
  const std::int64_t b = block_x() / d.kv_heads, kv = block_x() % d.kv_heads;
  DynamicShared memory;
  const Shared<float> prob = memory.take<float>((d.seq + 3) / 4 * 4);
  const Shared<float> slope = memory.take<float>((d.seq + 3) / 4 * 4);
  const int first = block_y() * kRowsOfABlock;
  for (int s = first; s < first + kRowsOfABlock && s < d.seq; ++s) {
    float* dk = rows_of(a.dk, b, kv) + s * a.dk.seq;
    float* dv = rows_of(a.dv, b, kv) + s * a.dv.seq;
    for (int i = thread_x(); i < p.head_dim; i += kBlockThreads) dk[i] = dv[i] = 0.0F;
    for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      const Head head = head_of(a, b, h);
      for (int t = s + thread_x(); t < d.seq; t += kBlockThreads) {
        const Slope one = slope_of(a, head, t, s, p.head_dim);
        prob[t] = head.gate * one.probability;
        slope[t] = one.score;
      }
      barrier();
      for (int i = thread_x(); i < p.head_dim; i += kBlockThreads) {
        float key = 0.0F, value = 0.0F;
        for (int t = s; t < d.seq; ++t) {
          key += slope[t] * head.q[t * a.q.seq + i];
          value += prob[t] * head.dout[t * a.dout.seq + i];
        }
        dk[i] += key;
        dv[i] += value;
      }
      barrier();  // the next head overwrites prob and slope
    }
  }
}

LaunchShape blocks_of_rows(const AttendSizes& d, int heads, int arrays) {
  return {.grid = {static_cast<unsigned>(d.batch * heads),
                   static_cast<unsigned>((d.seq + kRowsOfABlock - 1) / kRowsOfABlock)},
          .block = {kBlockThreads},
          .dynamic_shared =
              (static_cast<std::size_t>(d.seq) + 3) / 4 * 16 * static_cast<std::size_t>(arrays)};
}

}  // namespace

void attend_rows_backward(const AttendBackward<float>& args, int head_dim) {
  attend_delta(args.sizes, args.dout, args.out, head_dim, args.delta);
  const RowsBackward p{args, head_dim};
  launch("attend_rows_dq", rows_dq, blocks_of_rows(args.sizes, args.sizes.heads, 1), p);
  launch("attend_rows_dkv", rows_dkv, blocks_of_rows(args.sizes, args.sizes.kv_heads, 2), p);
}

}  // namespace headloom::cuda
