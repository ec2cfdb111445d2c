#include <cmath>

#include "base/threads.h"
#include "ops/cpu.h"
#include "ops/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attend_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/attend_tile-inl.h"

// One (batch, head) is one task, or several that share out its blocks where there are few. For a
// block of queries it makes the scores of all keys, then the softmax and its product with the
// values in chunks of keys that stay in the first cache. Never is there a T x T matrix: the scores
// of one block, [keys][kBlock], are the largest buffer.

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

/// Keys whose probabilities are made and used before the next ones.
constexpr std::int64_t kKeyChunk = 128;
/// Rows fetched ahead per tile of scores.
constexpr int kAhead = 4;
/// Up to this many queries a row-by-row kernel is faster than a block that is mostly empty.
constexpr std::int64_t kFewQueries = 4;

/// What one task works on, in this thread's scratch memory.
struct ForwardTask {
  const float *q, *k, *v;
  float *out, *lse;
  std::int64_t q_stride, k_stride, v_stride, out_stride;
  std::int64_t queries, keys, dim;
  float scale;  ///< 1 / sqrt(HS)
  float gate;
  std::int64_t part, parts;  ///< this task does every parts-th block of queries
};

/// Scores (in units of log 2) of kRows keys against the block, masked, and their running maximum.
template <int kFirst>
HWY_INLINE void score_tile(const float* k, std::int64_t dim, const float* q, float* scores,
                           std::int64_t key, std::int64_t first, V* largest) {
  const F d;
  Tile<kRows, kVecs> c;
  tile_zero<kFirst>(c);
  tile_multiply<kFirst>(c, k, dim, 1, q, kBlock, dim);
  const bool masked = key + kRows - 1 > first;
  HEADLOOM_UNROLL for (int v = kFirst; v < kVecs; ++v) {
    V most = largest[v];  // a local: stores to the scores could otherwise alias it
    HEADLOOM_UNROLL for (int i = 0; i < kRows; ++i) {
      if (masked) {
        c[i][v] = hn::IfThenElse(visible(key + i, first, v), c[i][v], hn::Set(d, -INFINITY));
      }
      most = hn::Max(most, c[i][v]);
      hn::StoreU(c[i][v], d, scores + i * kBlock + v * kLanes);
    }
    largest[v] = most;
  }
}

template <int kFirst>
void score_tile_from(int vector, const float* k, std::int64_t dim, const float* q, float* scores,
                     std::int64_t key, std::int64_t first, V* largest) {
  if constexpr (kFirst < kVecs) {
    if (vector == kFirst) {
      score_tile<kFirst>(k, dim, q, scores, key, first, largest);
    } else {
      score_tile_from<kFirst + 1>(vector, k, dim, q, scores, key, first, largest);
    }
  }
}

/// Turns the scores of keys [begin, end) into exponentials and adds them to `sum`.
template <int kFirst>
HWY_INLINE void exponentials(float* scores, std::int64_t begin, std::int64_t end,
                             std::int64_t first, const V* largest, V* sum) {
  if constexpr (kFirst < kVecs) {
    std::int64_t from, to;
    key_segment<kFirst>(begin, end, first, &from, &to);
    const F d;
    V most[kVecs], total[kVecs];
    HEADLOOM_UNROLL for (int v = kFirst; v < kVecs; ++v) most[v] = largest[v], total[v] = sum[v];
    for (std::int64_t key = from; key < to; ++key) {
      float* row = scores + (key - begin) * kBlock;
      HEADLOOM_UNROLL for (int v = kFirst; v < kVecs; ++v) {
        const V p = exp2_approx(hn::Sub(hn::LoadU(d, row + v * kLanes), most[v]));
        total[v] = hn::Add(total[v], p);
        hn::StoreU(p, d, row + v * kLanes);
      }
    }
    HEADLOOM_UNROLL for (int v = kFirst; v < kVecs; ++v) sum[v] = total[v];
    exponentials<kFirst + 1>(scores, begin, end, first, largest, sum);
  }
}

/// Divides by the row sums, writes the block's rows of `out` and their log-sum-exp.
void finish_block(const ForwardTask& t, std::int64_t block, std::int64_t queries, float* out_t,
                  const V* largest, const V* sum) {
  const F d;
  HWY_ALIGN float lse[kBlock];
  for (int v = 0; v < kVecs; ++v) {
    const V inverse = hn::Div(hn::Set(d, t.gate), sum[v]);
    for (std::int64_t c = 0; c < t.dim; ++c) {
      float* row = out_t + c * kBlock + v * kLanes;
      hn::StoreU(hn::Mul(hn::LoadU(d, row), inverse), d, row);
    }
    HWY_ALIGN float sums[kLanes], maxima[kLanes];
    hn::Store(sum[v], d, sums);
    hn::Store(largest[v], d, maxima);
    for (std::int64_t i = 0; i < kLanes; ++i) {
      lse[v * kLanes + i] = (maxima[i] + std::log2(sums[i])) * kLn2;
    }
  }
  transpose(out_t, kBlock, t.dim, queries, 1.0F, t.out + block * t.out_stride, t.out_stride);
  if (t.lse != nullptr) std::copy_n(lse, queries, t.lse + block);
}

void forward_block(const ForwardTask& t, std::int64_t block, const float* k, const float* v,
                   float* q_t, float* out_t, float* scores, RowPrefetch& ahead) {
  const F d;
  const std::int64_t queries = std::min(kBlock, t.queries - block);
  const std::int64_t first = t.keys - t.queries + block, keys = first + queries;
  std::fill_n(q_t, t.dim * kBlock, 0.0F);
  transpose(t.q + block * t.q_stride, t.q_stride, queries, t.dim, t.scale * kLog2E, q_t, kBlock);
  V largest[kVecs], sum[kVecs];
  for (int i = 0; i < kVecs; ++i) {
    largest[i] = hn::Set(d, -INFINITY);
    sum[i] = hn::Zero(d);
  }
  for (std::int64_t key = 0; key < keys; key += kRows) {
    score_tile_from<0>(first_vector(key, first), k + key * t.dim, t.dim, q_t, scores + key * kBlock,
                       key, first, largest);
    for (int i = 0; i < kAhead; ++i) ahead.next();
  }
  for (std::int64_t begin = 0; begin < keys; begin += kKeyChunk) {
    const std::int64_t end = std::min(begin + kKeyChunk, keys);
    float* p = scores + begin * kBlock;
    exponentials<0>(p, begin, end, first, largest, sum);
    accumulate_over_keys(v + begin * t.dim, t.dim, p, out_t, begin, end, first, begin == 0);
  }
  finish_block(t, block, queries, out_t, largest, sum);
}

void forward_blocks(const ForwardTask& t) {
  const std::int64_t rows = t.keys + kRows;
  float* k = thread_scratch(2 * rows * t.dim + 2 * t.dim * kBlock + rows * kBlock + 64);
  float* v = k + rows * t.dim;
  float* q_t = v + rows * t.dim;
  float* out_t = q_t + t.dim * kBlock;
  float* scores = out_t + t.dim * kBlock;
  std::int64_t packed = 0;
  for (std::int64_t block = t.part * kBlock; block < t.queries; block += t.parts * kBlock) {
    // Keys are packed just before the first block that looks at them.
    const std::int64_t seen = t.keys - t.queries + std::min(block + kBlock, t.queries);
    pack_rows(t.k + packed * t.k_stride, t.k_stride, seen - packed, t.dim, k + packed * t.dim,
              t.dim);
    pack_rows(t.v + packed * t.v_stride, t.v_stride, seen - packed, t.dim, v + packed * t.dim,
              t.dim);
    packed = seen;
    std::fill_n(k + packed * t.dim, kRows * t.dim, 0.0F);
    RowPrefetch ahead;
    const std::int64_t next = block + t.parts * kBlock;
    const std::int64_t last = std::min(next + kBlock, t.queries);
    const std::int64_t keys = t.keys - t.queries + last - packed;
    if (next < t.queries) {
      ahead.add(t.q + next * t.q_stride, t.q_stride, last - next, t.dim);
      ahead.add(t.v + packed * t.v_stride, t.v_stride, keys, t.dim);
      ahead.add(t.k + packed * t.k_stride, t.k_stride, keys, t.dim);
    }
    forward_block(t, block, k, v, q_t, out_t, scores, ahead);
  }
}

/// out[c] = factor * sum over keys of p[j] v[j][c], for kN vectors of dimensions from c on; the
/// last may be cut short.
template <int kN>
HWY_INLINE void weigh_values(const ForwardTask& t, const float* p, std::int64_t keys, float factor,
                             std::int64_t c, float* out) {
  const F d;
  V sum[kN];
  HEADLOOM_UNROLL for (int v = 0; v < kN; ++v) sum[v] = hn::Zero(d);
  for (std::int64_t j = 0; j < keys; ++j) {
    const float* row = t.v + j * t.v_stride;
    const V x = hn::Set(d, p[j]);
    HEADLOOM_UNROLL for (int v = 0; v < kN; ++v) {
      const std::int64_t at = c + v * kLanes;
      sum[v] = hn::MulAdd(x, v == kN - 1 ? load_n(row + at, t.dim - at) : hn::LoadU(d, row + at),
                          sum[v]);
    }
  }
  HEADLOOM_UNROLL for (int v = 0; v < kN; ++v) {
    const std::int64_t at = c + v * kLanes;
    store_n(hn::Mul(sum[v], hn::Set(d, factor)), out + at, t.dim - at);
  }
}

/// One query after the other, dimensions in the lanes: decoding.
void forward_rows(const ForwardTask& t) {
  const F d;
  float* p = thread_scratch(t.keys + kLanes);
  for (std::int64_t i = 0; i < t.queries; ++i) {
    const std::int64_t keys = t.keys - t.queries + i + 1;
    float largest = -INFINITY;
    for (std::int64_t j = 0; j < keys; ++j) {
      p[j] = dot(t.q + i * t.q_stride, t.k + j * t.k_stride, t.dim) * (t.scale * kLog2E);
      largest = p[j] > largest ? p[j] : largest;
    }
    V sums = hn::Zero(d);
    for (std::int64_t j = 0; j < keys; j += kLanes) {
      V e = exp2_approx(hn::Sub(load_n(p + j, keys - j), hn::Set(d, largest)));
      if (keys - j < kLanes) {
        e = hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(keys - j)), e);
      }
      sums = hn::Add(sums, e);
      store_n(e, p + j, keys - j);
    }
    const float sum = sum_lanes(sums), factor = t.gate / sum;
    float* out = t.out + i * t.out_stride;
    std::int64_t c = 0;
    for (; c + 4 * kLanes <= t.dim; c += 4 * kLanes) {
      weigh_values<4>(t, p, keys, factor, c, out);
    }
    for (; c + 2 * kLanes <= t.dim; c += 2 * kLanes) {
      weigh_values<2>(t, p, keys, factor, c, out);
    }
    for (; c < t.dim; c += kLanes) weigh_values<1>(t, p, keys, factor, c, out);
    if (t.lse != nullptr) t.lse[i] = (largest + std::log2(sum)) * kLn2;
  }
}

void attend_forward_task(const AttendForward<float>& a, std::int64_t task, std::int64_t parts) {
  const std::int64_t group = a.q.heads / a.k.heads, whole = task / parts;
  const std::int64_t b = whole / a.q.heads, h = whole % a.q.heads;
  const ForwardTask t{.q = a.q.at(b, 0, h),
                      .k = a.k.at(b, 0, h / group),
                      .v = a.v.at(b, 0, h / group),
                      .out = a.out.at(b, 0, h),
                      .lse = a.lse != nullptr ? a.lse + whole * a.q.seq : nullptr,
                      .q_stride = a.q.seq_stride,
                      .k_stride = a.k.seq_stride,
                      .v_stride = a.v.seq_stride,
                      .out_stride = a.out.seq_stride,
                      .queries = a.q.seq,
                      .keys = a.k.seq,
                      .dim = a.q.head_dim,
                      .scale = 1.0F / std::sqrt(static_cast<float>(a.q.head_dim)),
                      .gate = a.gate != nullptr ? a.gate[h] : 1.0F,
                      .part = task % parts,
                      .parts = parts};
  if (t.queries > kFewQueries) {
    forward_blocks(t);
  } else if (t.part == 0) {
    forward_rows(t);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(attend_forward_task);

std::int64_t attend_parts(std::int64_t tasks, std::int64_t positions) {
  const std::int64_t wanted = thread_count() > 1 ? 2 * thread_count() : 1;
  if (tasks == 0 || tasks >= wanted) return 1;
  return std::min((wanted + tasks - 1) / tasks, (positions + 63) / 64);
}

void attend_forward_cpu(const AttendForward<float>& a) {
  const std::int64_t tasks = a.q.batch * a.q.heads, parts = attend_parts(tasks, a.q.seq);
  parallel_tasks(tasks * parts, [&](std::int64_t task) {
    HWY_DYNAMIC_DISPATCH(attend_forward_task)(a, task, parts);
  });
}

}  // namespace headloom
#endif
