// Attention row by row, fp32, any head_dim: what the seed's kernel does, but with a block to 16
// queries (dk, dv: to 16 keys), so that a card has work for all of its processors. A block owns
// what it writes: no atomics, the same bits every time.
//
// Each row goes in two steps. First eight lanes at a time share a key (for dk and dv, a query of
// the key), so that they read 32 bytes of it together, and leave its number in shared memory. Then
// threads share out the channels, and what threads are left the rows that are summed.
#include "ops/attend_cuda.h"
#include "ops/cuda_block.cuh"

namespace headloom::cuda {
namespace {

using namespace simt;

constexpr int kRowsOfABlock = 16;
constexpr int kLanesOfARow = 8;
constexpr int kRowsOfAWarp = 32 / kLanesOfARow;

using RowsForward = AnyHeadDim<AttendForward<float>>;
using RowsBackward = AnyHeadDim<AttendBackward<float>>;

/// The product of two rows, for all of the eight lanes that share them. All lanes of a warp call
/// it.
SIMT_FN float shared_dot(const float* a, const float* b, int n) {
  float sum = 0.0F;
  for (int i = lane() % kLanesOfARow; i < n; i += kLanesOfARow) sum += a[i] * b[i];
  for (int mask = kLanesOfARow / 2; mask > 0; mask /= 2) sum += shfl_xor(sum, mask);
  return sum;
}

/// Calls body(row, whether this lane is the one that writes) for rows begin ... end - 1, eight
/// lanes to a row; a warp's last rows may be repeated, so that all of its lanes go along.
template <class Body>
SIMT_FN void for_rows(int begin, int end, Body&& body) {
  for (int base = begin + warp() * kRowsOfAWarp; base < end; base += kRowsOfAWarp * kBlockWarps) {
    const int row = base + lane() / kLanesOfARow;
    body(row < end ? row : end - 1, row < end && lane() % kLanesOfARow == 0);
  }
}

/// take(i, sum over rows begin ... end - 1 of weight[row] * x[row * stride + i]) for each i < n, by
/// one thread. The threads that channels leave idle take every second, or every fourth, row.
template <class Take>
SIMT_FN void weighted_sum(const Shared<float>& weight, const float* x, std::int64_t stride,
                          int begin, int end, int n, const Shared<float>& parts, Take&& take) {
  const int channels = n > 64 ? 128 : n > 32 ? 64 : 32;
  const int groups = kBlockThreads / channels, group = thread_x() / channels;
  for (int first = 0; first < n; first += channels) {
    const int i = first + thread_x() % channels;
    float sum = 0.0F;
    if (i < n) {
      for (int row = begin + group; row < end; row += groups)
        sum += weight[row] * x[row * stride + i];
    }
    parts[thread_x()] = sum;
    barrier();
    if (group == 0 && i < n) {
      for (int g = 1; g < groups; ++g) sum += parts[g * channels + thread_x()];
      take(i, sum);
    }
    barrier();  // the next channels, or whoever comes next, overwrite parts and weight
  }
}

SIMT_KERNEL(kBlockThreads, 1)
void rows_forward(RowsForward p) {
  const AttendForward<float>& a = p.args;
  const AttendSizes& d = a.sizes;
  const std::int64_t b = block_x() / d.heads, h = block_x() % d.heads;
  const std::int64_t kv = h / (d.heads / d.kv_heads);
  const float *q = rows_of(a.q, b, h), *k = rows_of(a.k, b, kv), *v = rows_of(a.v, b, kv);
  const float gate = gate_of(a.gate, h);
  const int queries = d.queries >= 0 ? d.queries : d.seq;
  const Shared<float> score = DynamicShared().take<float>((d.seq + 3) / 4 * 4);
  SIMT_STATIC_SHARED(float, partial, kBlockWarps);
  SIMT_STATIC_SHARED(float, parts, kBlockThreads);

  const int first = block_y() * kRowsOfABlock;
  for (int t = first; t < first + kRowsOfABlock && t < queries; ++t) {
    const int keys = d.seq - queries + t + 1;
    float top = -INFINITY, sum = 0.0F;
    for_rows(0, keys, [&](int s, bool writes) {
      const float x = shared_dot(q + t * a.q.seq, k + s * a.k.seq, p.head_dim) * a.scale;
      if (writes) score[s] = x;
      top = fmaxf(top, x);
    });
    top = block_max(top, partial);
    for (int s = thread_x(); s < keys; s += kBlockThreads) {
      const float e = expf(score[s] - top);
      score[s] = e;
      sum += e;
    }
    sum = block_sum(sum, partial);
    float* out = rows_of(a.out, b, h) + t * a.out.seq;
    weighted_sum(score, v, a.v.seq, 0, keys, p.head_dim, parts,
                 [&](int i, float weighted) { out[i] = gate * weighted / sum; });
    if (thread_x() == 0 && a.lse != nullptr) {
      a.lse[static_cast<std::int64_t>(block_x()) * queries + t] = top + logf(sum);
    }
  }
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
  const float x = shared_dot(head.q + t * a.q.seq, head.k + s * a.k.seq, n) * a.scale;
  const float dp = shared_dot(head.dout + t * a.dout.seq, head.v + s * a.v.seq, n);
  const float probability = expf(x - head.lse[t]);
  return {probability, probability * (head.gate * dp - head.delta[t]) * a.scale};
}

SIMT_KERNEL(kBlockThreads, 1)
void rows_dq(RowsBackward p) {
  const AttendBackward<float>& a = p.args;
  const AttendSizes& d = a.sizes;
  const std::int64_t b = block_x() / d.heads, h = block_x() % d.heads;
  const Head head = head_of(a, b, h);
  const Shared<float> slope = DynamicShared().take<float>((d.seq + 3) / 4 * 4);
  SIMT_STATIC_SHARED(float, parts, kBlockThreads);
  const int first = block_y() * kRowsOfABlock;
  for (int t = first; t < first + kRowsOfABlock && t < d.seq; ++t) {
    for_rows(0, t + 1, [&](int s, bool writes) {
      const Slope one = slope_of(a, head, t, s, p.head_dim);
      if (writes) slope[s] = one.score;
    });
    barrier();
    float* dq = rows_of(a.dq, b, h) + t * a.dq.seq;
    weighted_sum(slope, head.k, a.k.seq, 0, t + 1, p.head_dim, parts,
                 [&](int i, float sum) { dq[i] = sum; });
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
  SIMT_STATIC_SHARED(float, parts, kBlockThreads);
  const int first = block_y() * kRowsOfABlock;
  for (int s = first; s < first + kRowsOfABlock && s < d.seq; ++s) {
    float* dk = rows_of(a.dk, b, kv) + s * a.dk.seq;
    float* dv = rows_of(a.dv, b, kv) + s * a.dv.seq;
    for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      const Head head = head_of(a, b, h);
      const bool begins = h == kv * group;  // a channel is one thread's, from head to head
      for_rows(s, d.seq, [&](int t, bool writes) {
        const Slope one = slope_of(a, head, t, s, p.head_dim);
        if (!writes) return;
        prob[t] = head.gate * one.probability;
        slope[t] = one.score;
      });
      barrier();
      weighted_sum(slope, head.q, a.q.seq, s, d.seq, p.head_dim, parts,
                   [&](int i, float sum) { dk[i] = begins ? sum : dk[i] + sum; });
      weighted_sum(prob, head.dout, a.dout.seq, s, d.seq, p.head_dim, parts,
                   [&](int i, float sum) { dv[i] = begins ? sum : dv[i] + sum; });
    }
  }
}

/// A block to 16 of `rows` rows of each of `heads` heads, with so many arrays of T floats.
LaunchShape blocks_of_rows(const AttendSizes& d, int heads, int rows, int arrays) {
  return {.grid = {static_cast<unsigned>(d.batch * heads),
                   static_cast<unsigned>((rows + kRowsOfABlock - 1) / kRowsOfABlock)},
          .block = {kBlockThreads},
          .dynamic_shared =
              (static_cast<std::size_t>(d.seq) + 3) / 4 * 16 * static_cast<std::size_t>(arrays)};
}

}  // namespace

void attend_rows_forward(const AttendForward<float>& args, int head_dim) {
  const AttendSizes& d = args.sizes;
  if (d.batch == 0 || d.seq == 0) return;
  launch("attend_rows_forward", rows_forward,
         blocks_of_rows(d, d.heads, d.queries >= 0 ? d.queries : d.seq, 1),
         RowsForward{args, head_dim});
}

void attend_rows_backward(const AttendBackward<float>& args, int head_dim) {
  const AttendSizes& d = args.sizes;
  attend_delta(d, args.dout, args.out, head_dim, args.delta);
  const RowsBackward p{args, head_dim};
  launch("attend_rows_dq", rows_dq, blocks_of_rows(d, d.heads, d.seq, 1), p);
  launch("attend_rows_dkv", rows_dkv, blocks_of_rows(d, d.kv_heads, d.seq, 2), p);
}

}  // namespace headloom::cuda
