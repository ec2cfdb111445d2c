// Tiled causal attention on tensor cores, backward, after FlashAttention-2 (Dao 2023, algorithm 2).
// bf16 operands, fp32 accumulation. Two kernels, one by queries and one by keys, so that no two
// blocks add to the same number. Blocks and barriers as forward (attend_cuda.cu).
//
// Up to HS 64 the rows that a warp owns stay in registers, and dk and dv are made together. Wider
// heads read them from shared memory at every use and make dk and dv in a kernel each, which
// computes the scores once more: registers are what is scarce there.

#include "ops/attend_tile.cuh"
#include "ops/cuda_block.cuh"

namespace headloom::cuda {
namespace {

using namespace simt;
using tile::kGroups;
using tile::kLog2E;
using tile::kRows;
using tile::kThreads;
using tile::statistics_of;

template <int HS>
constexpr bool kRowsInRegisters = HS <= 64;

/// The rows of a tile that a warp multiplies by others, again and again.
template <int HS>
struct OwnRows {
  Shared<bf16> tile_rows;
  std::uint32_t kept[kRowsInRegisters<HS> ? HS / 16 : 1][4];

  SIMT_FN void load() {
    if constexpr (kRowsInRegisters<HS>) tile::load_rows<HS>(kept, tile_rows, 16 * warp());
  }
  SIMT_FN void scores(float (&s)[kGroups][4], Shared<bf16> other) const {
    if constexpr (kRowsInRegisters<HS>) {
      tile::scores<HS>(s, kept, other);
    } else {
      tile::scores_of_rows<HS>(s, tile_rows, 16 * warp(), other);
    }
  }
};

/// dQ of 64 queries: S = Q K^T, dP = dO V^T, dS = P (dP - delta), dQ = scale dS K.
template <int HS>
SIMT_KERNEL(kThreads, 1)
void backward_dq(AttendBackward<bf16> p) {
  const AttendSizes& d = p.sizes;
  const int b = block_x() / d.heads, h = block_x() % d.heads, kv = h / (d.heads / d.kv_heads);
  const int blocks = (d.seq + kRows - 1) / kRows;
  const int query_block = blocks - 1 - block_y();
  const int first_query = query_block * kRows;

  DynamicShared memory;
  const Shared<bf16> q_tile = memory.take<bf16>(tile::kElements<HS>);
  const Shared<bf16> do_tile = memory.take<bf16>(tile::kElements<HS>);
  const tile::Pairs<HS> keys(memory);
  const auto fetch_keys = [&](int block) {
    keys.fetch(block, rows_of(p.k, b, kv), p.k.seq, rows_of(p.v, b, kv), p.v.seq, block * kRows,
               d.seq);
  };
  tile::fetch<HS>(q_tile, rows_of(p.q, b, h), p.q.seq, first_query, d.seq);
  tile::fetch<HS>(do_tile, rows_of(p.dout, b, h), p.dout.seq, first_query, d.seq);
  fetch_keys(0);
  cp_async_commit();

  const float scale = p.scale * kLog2E;
  const int row = 16 * warp() + lane() / 4;
  const std::int64_t stats = statistics_of(d, b, h);
  const float gate = gate_of(p.gate, h);
  float lse[2], delta[2];
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int query = first_query + row + 8 * half;
    lse[half] = query < d.seq ? p.lse[stats + query] * kLog2E : INFINITY;
    delta[half] = query < d.seq ? p.delta[stats + query] : 0.0F;
  }
  float dq[HS / 8][4] = {};
  OwnRows<HS> q{q_tile, {}}, dout{do_tile, {}};

  for (int block = 0; block <= query_block; ++block) {
    cp_async_wait<0>();
    barrier();
    if (block < query_block) {
      fetch_keys(block + 1);
      cp_async_commit();
    }
    if (block == 0) {
      q.load();
      dout.load();
    }
    const Shared<bf16> k_tile = keys.left(block);
    float s[kGroups][4], dp[kGroups][4];
    q.scores(s, k_tile);
    dout.scores(dp, keys.right(block));
    SIMT_UNROLL
    for (int n = 0; n < kGroups; ++n) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int half = i >> 1;
        const bool seen =
            block < query_block || 8 * n + 2 * (lane() % 4) + (i & 1) <= row + 8 * half;
        const float prob = seen ? fast_exp2(s[n][i] * scale - lse[half]) : 0.0F;
        s[n][i] = prob * (gate * dp[n][i] - delta[half]);
      }
    }
    tile::accumulate<HS>(dq, s, k_tile);
  }
  const float factor[2] = {p.scale, p.scale};
  tile::store_rows<HS>(rows_of(p.dq, b, h), p.dq.seq, first_query + 16 * warp(), d.seq, dq, factor,
                       q_tile);
}

/// dK and dV of 64 keys, over all query heads of the group and all later queries. Everything is
/// transposed, so that the accumulators hold keys in rows:
/// S^T = K Q^T, dP^T = V dO^T, dV = P^T dO, dK = scale dS^T Q. With kKeys dK is made, with kValues
/// dV.
template <int HS, bool kKeys, bool kValues>
SIMT_KERNEL(kThreads, 1)
void backward_dkv(AttendBackward<bf16> p) {
  const AttendSizes& d = p.sizes;
  const int group = d.heads / d.kv_heads;
  const int b = block_x() / d.kv_heads, kv = block_x() % d.kv_heads, first_head = kv * group;
  const int blocks = (d.seq + kRows - 1) / kRows;
  const int key_block = block_y();
  const int first_key = key_block * kRows;

  DynamicShared memory;
  const Shared<bf16> k_tile = memory.take<bf16>(tile::kElements<HS>);
  const Shared<bf16> v_tile = memory.take<bf16>(tile::kElements<HS>);
  const tile::Pairs<HS> queries(memory);
  const Shared<float> lse = memory.take<float>(2 * kRows);
  const Shared<float> delta = memory.take<float>(2 * kRows);

  const int per_head = blocks - key_block, steps = group * per_head;
  const auto fetch_queries = [&](int step) {
    const int h = first_head + step / per_head;
    const std::int64_t stats = statistics_of(d, b, h);
    const int first = (key_block + step % per_head) * kRows;
    queries.fetch(step, rows_of(p.q, b, h), p.q.seq, rows_of(p.dout, b, h), p.dout.seq, first,
                  d.seq);
    const int n = thread_x() % kRows, query = first + n;
    const int slot = (step & 1) * kRows + n;
    if (thread_x() < kRows) {
      lse[slot] = query < d.seq ? p.lse[stats + query] * kLog2E : INFINITY;
    } else {
      delta[slot] = query < d.seq ? p.delta[stats + query] : 0.0F;
    }
  };
  tile::fetch<HS>(k_tile, rows_of(p.k, b, kv), p.k.seq, first_key, d.seq);
  tile::fetch<HS>(v_tile, rows_of(p.v, b, kv), p.v.seq, first_key, d.seq);
  fetch_queries(0);
  cp_async_commit();

  const float scale = p.scale * kLog2E;
  const int row = 16 * warp() + lane() / 4;
  float dk[kKeys ? HS / 8 : 1][4] = {}, dv[kValues ? HS / 8 : 1][4] = {};
  OwnRows<HS> k{k_tile, {}}, v{v_tile, {}};

  for (int step = 0; step < steps; ++step) {
    cp_async_wait<0>();
    barrier();
    if (step + 1 < steps) {
      fetch_queries(step + 1);
      cp_async_commit();
    }
    if (step == 0) {
      k.load();
      if constexpr (kKeys) v.load();
    }
    const bool diagonal = step % per_head == 0;
    const float gate = gate_of(p.gate, first_head + step / per_head);
    const int slots = (step & 1) * kRows;
    const Shared<bf16> q_tile = queries.left(step), do_tile = queries.right(step);
    float s[kGroups][4], ds[kGroups][4];
    k.scores(s, q_tile);
    if constexpr (kKeys) v.scores(ds, do_tile);
    SIMT_UNROLL
    for (int n = 0; n < kGroups; ++n) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int query = 8 * n + 2 * (lane() % 4) + (i & 1);
        const bool seen = !diagonal || row + 8 * (i >> 1) <= query;
        const float prob = seen ? fast_exp2(s[n][i] * scale - lse[slots + query]) : 0.0F;
        if constexpr (kKeys) ds[n][i] = prob * (gate * ds[n][i] - delta[slots + query]);
        s[n][i] = gate * prob;
      }
    }
    if constexpr (kValues) tile::accumulate<HS>(dv, s, do_tile);
    if constexpr (kKeys) tile::accumulate<HS>(dk, ds, q_tile);
  }
  if constexpr (kKeys) {
    const float factor[2] = {p.scale, p.scale};
    tile::store_rows<HS>(rows_of(p.dk, b, kv), p.dk.seq, first_key + 16 * warp(), d.seq, dk, factor,
                         k_tile);
  }
  if constexpr (kValues) {
    const float one[2] = {1.0F, 1.0F};
    tile::store_rows<HS>(rows_of(p.dv, b, kv), p.dv.seq, first_key + 16 * warp(), d.seq, dv, one,
                         v_tile);
  }
}

}  // namespace

template <int HS>
void attend_tile_backward(const AttendBackward<bf16>& p) {
  const AttendSizes& d = p.sizes;
  attend_delta(d, p.dout, p.out, HS, p.delta);
  launch("attend_backward_dq", backward_dq<HS>, tile::shape_of<HS>(d, d.heads, 6), p);
  LaunchShape shape = tile::shape_of<HS>(d, d.kv_heads, 6);
  shape.dynamic_shared += 4 * kRows * sizeof(float);
  if constexpr (kRowsInRegisters<HS>) {
    launch("attend_backward_dkv", backward_dkv<HS, true, true>, shape, p);
  } else {
    launch("attend_backward_dk", backward_dkv<HS, true, false>, shape, p);
    launch("attend_backward_dv", backward_dkv<HS, false, true>, shape, p);
  }
}

template void attend_tile_backward<32>(const AttendBackward<bf16>&);
template void attend_tile_backward<64>(const AttendBackward<bf16>&);
template void attend_tile_backward<96>(const AttendBackward<bf16>&);
template void attend_tile_backward<128>(const AttendBackward<bf16>&);

}  // namespace headloom::cuda
