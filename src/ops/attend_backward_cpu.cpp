#include <cmath>

#include "base/threads.h"
#include "ops/cpu.h"
#include "ops/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attend_backward_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/attend_tile-inl.h"

// One (batch, key head) is one task, so that no two threads add to the same gradient. Blocks of
// queries outside, chunks of keys inside; P^T and dS^T of one chunk are recomputed from lse, then
// used three times: dV += P^T dO, dK += dS^T Q (rows of keys, dimensions in the lanes) and
// dQ^T += K^T dS (as in forward). dK and dV grow in buffers of the task's own. Where there are
// fewer key heads than threads want, several tasks share out the blocks of one, each with buffers
// of its own, which are added up at the end in the order of the parts: five products as before,
// while two passes, one by keys and one by queries, would need seven.

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

/// A multiple of kRows. P and dS of a chunk, [96][kBlock] each, stay near the core.
constexpr std::int64_t kKeyChunk = 96;
/// Rows fetched ahead per tile.
constexpr int kAhead = 6;

/// This thread's scratch memory. Rows of width `padded` have zeros behind the head's dimensions.
struct Buffers {
  std::int64_t dim, padded;
  float *k, *v;          ///< [T + kRows][dim]
  float *dk, *dv;        ///< [T + kRows][padded]
  float *q, *dout;       ///< [kBlock][padded]
  float *q_t, *dout_t;   ///< [dim][kBlock], q_t in units of log 2
  float* dq_t;           ///< [dim][kBlock]
  float *p, *ds;         ///< [kKeyChunk][kBlock]
  float *lse, *row_sum;  ///< [kBlock]
};

/// `gradients`: room for dk and dv, or null to take it from the scratch memory too.
Buffers take_buffers(std::int64_t seq, std::int64_t dim, float* gradients) {
  Buffers b{};
  b.dim = dim;
  b.padded = (dim + kLanes - 1) / kLanes * kLanes;
  const std::int64_t rows = seq + kRows, own = gradients == nullptr ? rows * b.padded : 0;
  struct Piece {
    float** place;
    std::int64_t size;
  };
  const Piece pieces[] = {{&b.k, rows * dim},
                          {&b.v, rows * dim},
                          {&b.dk, own},
                          {&b.dv, own},
                          {&b.q, kBlock * b.padded},
                          {&b.dout, kBlock * b.padded},
                          {&b.q_t, dim * kBlock},
                          {&b.dout_t, dim * kBlock},
                          {&b.dq_t, dim * kBlock},
                          {&b.p, kKeyChunk * kBlock},
                          {&b.ds, kKeyChunk * kBlock},
                          {&b.lse, kBlock},
                          {&b.row_sum, kBlock}};
  std::int64_t total = 0;
  for (const Piece& piece : pieces) total += (piece.size + 15) / 16 * 16;
  float* next = thread_scratch(total);
  for (const Piece& piece : pieces) {
    *piece.place = next;
    next += (piece.size + 15) / 16 * 16;
  }
  if (gradients != nullptr) {
    b.dk = gradients;
    b.dv = gradients + rows * b.padded;
  }
  return b;
}

/// P^T and dS^T of kRows keys against the block.
template <int kFirst>
void probability_tile(const Buffers& b, std::int64_t key, std::int64_t first, float* p, float* ds) {
  const F d;
  const bool masked = key + kRows - 1 > first;
  Tile<kRows, kVecs> c;
  tile_zero<kFirst>(c);
  tile_multiply<kFirst>(c, b.k + key * b.dim, b.dim, 1, b.q_t, kBlock, b.dim);
  HEADLOOM_UNROLL for (int v = kFirst; v < kVecs; ++v) {
    const V lse = hn::LoadU(d, b.lse + v * kLanes);
    HEADLOOM_UNROLL for (int i = 0; i < kRows; ++i) {
      V probability = exp2_approx(hn::Sub(c[i][v], lse));
      if (masked) probability = hn::IfThenElseZero(visible(key + i, first, v), probability);
      hn::StoreU(probability, d, p + i * kBlock + v * kLanes);
    }
  }
  tile_zero<kFirst>(c);
  tile_multiply<kFirst>(c, b.v + key * b.dim, b.dim, 1, b.dout_t, kBlock, b.dim);
  HEADLOOM_UNROLL for (int v = kFirst; v < kVecs; ++v) {
    const V row_sum = hn::LoadU(d, b.row_sum + v * kLanes);
    HEADLOOM_UNROLL for (int i = 0; i < kRows; ++i) {
      const V probability = hn::LoadU(d, p + i * kBlock + v * kLanes);
      V slope = hn::Mul(probability, hn::Sub(c[i][v], row_sum));
      if (masked) slope = hn::IfThenElseZero(visible(key + i, first, v), slope);
      hn::StoreU(slope, d, ds + i * kBlock + v * kLanes);
    }
  }
}

template <int kFirst>
void probability_tile_from(int vector, const Buffers& b, std::int64_t key, std::int64_t first,
                           float* p, float* ds) {
  if constexpr (kFirst < kVecs) {
    if (vector == kFirst) {
      probability_tile<kFirst>(b, key, first, p, ds);
    } else {
      probability_tile_from<kFirst + 1>(vector, b, key, first, p, ds);
    }
  }
}

/// out[key][d] += sum over queries of p[key][query] * x[query][d], kRows keys, kN vectors of d.
template <int kN>
void key_gradient_tile(const float* p, const float* x, float* out, std::int64_t stride,
                       std::int64_t queries) {
  Tile<kRows, kN> c;
  tile_load(c, out, stride);
  tile_multiply<0>(c, p, kBlock, 1, x, stride, queries);
  tile_store(c, out, stride);
}

void key_gradient(const float* p, const float* x, float* out, std::int64_t stride,
                  std::int64_t queries) {
  std::int64_t left = stride / kLanes;
  while (left > 0) {
    if constexpr (kVecs == 4) {
      if (left >= 4) {
        key_gradient_tile<4>(p, x, out, stride, queries);
        x += 4 * kLanes, out += 4 * kLanes, left -= 4;
        continue;
      }
      if (left == 3) {
        key_gradient_tile<3>(p, x, out, stride, queries);
        return;
      }
    }
    if (left == 1) {
      key_gradient_tile<1>(p, x, out, stride, queries);
      return;
    }
    key_gradient_tile<2>(p, x, out, stride, queries);
    x += 2 * kLanes, out += 2 * kLanes, left -= 2;
  }
}

/// Loads queries and output gradients of one block, both ways round, with lse and rowsum(dO * O).
std::int64_t load_block(const AttendBackward<float>& a, std::int64_t batch, std::int64_t head,
                        std::int64_t block, const Buffers& b) {
  const std::int64_t queries = std::min(kBlock, a.q.seq - block);
  const float scale = kLog2E / std::sqrt(static_cast<float>(b.dim));
  pack_rows(a.q.at(batch, block, head), a.q.seq_stride, queries, b.dim, b.q, b.padded);
  pack_rows(a.dout.at(batch, block, head), a.dout.seq_stride, queries, b.dim, b.dout, b.padded);
  for (std::int64_t i = 0; i < kBlock; ++i) {
    b.row_sum[i] =
        i < queries ? dot(a.out.at(batch, block + i, head), b.dout + i * b.padded, b.dim) : 0.0F;
  }
  // From here on the gradient is that of P v, before its gate.
  if (a.gate != nullptr) {
    for (std::int64_t i = 0; i < queries * b.padded; ++i) b.dout[i] *= a.gate[head];
  }
  const std::int64_t empty = kBlock - queries;
  std::fill_n(b.q + queries * b.padded, empty * b.padded, 0.0F);
  std::fill_n(b.dout + queries * b.padded, empty * b.padded, 0.0F);
  transpose(b.q, b.padded, kBlock, b.dim, scale, b.q_t, kBlock);
  transpose(b.dout, b.padded, kBlock, b.dim, 1.0F, b.dout_t, kBlock);
  const float* lse = a.lse + (batch * a.q.heads + head) * a.q.seq + block;
  for (std::int64_t i = 0; i < kBlock; ++i) b.lse[i] = i < queries ? lse[i] * kLog2E : 0.0F;
  return queries;
}

void backward_block(const Buffers& b, std::int64_t first, std::int64_t queries,
                    RowPrefetch& ahead) {
  const std::int64_t keys = first + queries;
  for (std::int64_t begin = 0; begin < keys; begin += kKeyChunk) {
    const std::int64_t end = std::min(begin + kKeyChunk, keys);
    for (std::int64_t key = begin; key < end; key += kRows) {
      float *p = b.p + (key - begin) * kBlock, *ds = b.ds + (key - begin) * kBlock;
      probability_tile_from<0>(first_vector(key, first), b, key, first, p, ds);
      // Queries before the tile's first key see none of it.
      const std::int64_t skip = std::max<std::int64_t>(0, key - first);
      key_gradient(p + skip, b.dout + skip * b.padded, b.dv + key * b.padded, b.padded,
                   queries - skip);
      key_gradient(ds + skip, b.q + skip * b.padded, b.dk + key * b.padded, b.padded,
                   queries - skip);
      for (int i = 0; i < kAhead; ++i) ahead.next();
    }
    accumulate_over_keys(b.k + begin * b.dim, b.dim, b.ds, b.dq_t, begin, end, first, begin == 0);
  }
}

void store_rows(const float* src, std::int64_t src_stride, float factor, const Heads<float>& to,
                std::int64_t batch, std::int64_t head) {
  for (std::int64_t t = 0; t < to.seq; ++t) {
    float* row = to.at(batch, t, head);
    for (std::int64_t c = 0; c < to.head_dim; c += kLanes) {
      const V value = hn::LoadU(F(), src + t * src_stride + c);
      store_n(hn::Mul(hn::Set(F(), factor), value), row + c, to.head_dim - c);
    }
  }
}

/// Packs keys and values [begin, end), with zeros behind them for the last tile.
void pack_keys(const AttendBackward<float>& a, std::int64_t batch, std::int64_t kv,
               std::int64_t begin, std::int64_t end, const Buffers& b) {
  pack_rows(a.k.at(batch, begin, kv), a.k.seq_stride, end - begin, b.dim, b.k + begin * b.dim,
            b.dim);
  pack_rows(a.v.at(batch, begin, kv), a.v.seq_stride, end - begin, b.dim, b.v + begin * b.dim,
            b.dim);
  std::fill_n(b.k + end * b.dim, kRows * b.dim, 0.0F);
  std::fill_n(b.v + end * b.dim, kRows * b.dim, 0.0F);
}

/// Rows that the next block of queries will read.
RowPrefetch block_after(const AttendBackward<float>& a, std::int64_t batch, std::int64_t head,
                        std::int64_t block) {
  RowPrefetch ahead;
  const std::int64_t begin = block + kBlock, dim = a.q.head_dim;
  const std::int64_t rows = std::min(kBlock, a.q.seq - begin);
  if (rows <= 0) return ahead;
  const std::int64_t kv = head / (a.q.heads / a.k.heads);
  const auto add = [&](const Heads<const float>& x, std::int64_t h) {
    ahead.add(x.at(batch, begin, h), x.seq_stride, rows, dim);
  };
  add(a.out, head);
  add(a.dout, head);
  add(a.q, head);
  add(a.v, kv);
  add(a.k, kv);
  return ahead;
}

/// Floats that the gradients of one part take.
std::int64_t part_size(const AttendBackward<float>& a) {
  return 2 * (a.q.seq + kRows) * ((a.q.head_dim + kLanes - 1) / kLanes * kLanes);
}

void store_gradients(const AttendBackward<float>& a, std::int64_t batch, std::int64_t kv,
                     const Buffers& b) {
  store_rows(b.dk, b.padded, 1.0F / std::sqrt(static_cast<float>(b.dim)), a.dk, batch, kv);
  store_rows(b.dv, b.padded, 1.0F, a.dv, batch, kv);
}

/// One part of one (batch, key head): every parts-th block of the queries of its heads. `shared`
/// has room for the gradients of all parts; null when there is one part.
void attend_backward_task(const AttendBackward<float>& a, std::int64_t task, std::int64_t parts,
                          float* shared) {
  const std::int64_t group = a.q.heads / a.k.heads, seq = a.q.seq, dim = a.q.head_dim;
  const std::int64_t whole = task / parts, batch = whole / a.k.heads, kv = whole % a.k.heads;
  const Buffers b =
      take_buffers(seq, dim, shared != nullptr ? shared + task * part_size(a) : nullptr);
  std::fill_n(b.dk, (seq + kRows) * b.padded, 0.0F);
  std::fill_n(b.dv, (seq + kRows) * b.padded, 0.0F);
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  std::int64_t packed = 0, unit = 0;
  for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
    for (std::int64_t block = 0; block < seq; block += kBlock) {
      if (unit++ % parts != task % parts) continue;
      // Keys are packed just before the first block that looks at them.
      const std::int64_t seen = std::min(block + kBlock, seq);
      if (seen > packed) {
        pack_keys(a, batch, kv, packed, seen, b);
        packed = seen;
      }
      RowPrefetch ahead = block_after(a, batch, head, block);
      const std::int64_t queries = load_block(a, batch, head, block, b);
      backward_block(b, block, queries, ahead);
      transpose(b.dq_t, kBlock, dim, queries, scale, a.dq.at(batch, block, head), a.dq.seq_stride);
    }
  }
  if (shared == nullptr) store_gradients(a, batch, kv, b);
}

/// Adds up the gradients of all parts of one (batch, key head).
void add_parts(const AttendBackward<float>& a, std::int64_t whole, std::int64_t parts,
               float* shared) {
  const std::int64_t size = part_size(a);
  float* first = shared + whole * parts * size;
  for (std::int64_t part = 1; part < parts; ++part) {
    const float* other = first + part * size;
    for (std::int64_t i = 0; i < size; i += kLanes) {
      hn::StoreU(hn::Add(hn::LoadU(F(), first + i), hn::LoadU(F(), other + i)), F(), first + i);
    }
  }
  Buffers b{};
  b.dim = a.q.head_dim;
  b.padded = (b.dim + kLanes - 1) / kLanes * kLanes;
  b.dk = first;
  b.dv = first + (a.q.seq + kRows) * b.padded;
  store_gradients(a, whole / a.k.heads, whole % a.k.heads, b);
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(part_size);
HWY_EXPORT(attend_backward_task);
HWY_EXPORT(add_parts);

void attend_backward_cpu(const AttendBackward<float>& a) {
  if (a.dgate != nullptr) gate_gradient_cpu(a);
  const std::int64_t tasks = a.k.batch * a.k.heads, group = a.q.heads / a.k.heads;
  const std::int64_t parts = attend_parts(tasks, group * a.q.seq);
  float* shared = nullptr;
  if (parts > 1) {
    shared = thread_scratch<Scratch::kShared>(tasks * parts * HWY_DYNAMIC_DISPATCH(part_size)(a));
  }
  parallel_tasks(tasks * parts, [&](std::int64_t task) {
    HWY_DYNAMIC_DISPATCH(attend_backward_task)(a, task, parts, shared);
  });
  if (parts == 1) return;
  parallel_tasks(tasks, [&](std::int64_t whole) {
    HWY_DYNAMIC_DISPATCH(add_parts)(a, whole, parts, shared);
  });
}

}  // namespace headloom
#endif
