// Tiled causal attention on tensor cores, forward and backward, after FlashAttention-2
// (Dao 2023, algorithms 1 and 2). bf16 operands, fp32 accumulation.
//
// The tiled kernels: block 128 (4 warps, 16 rows each), grid (B * heads, T / 64), key heads for dk
// and dv, with the longest blocks first. One barrier per tile: wait for this tile's copies,
// barrier, start the next tile's copies into the buffer that everyone has left, compute.

#include "ops/attend_cuda.h"
#include "ops/attend_tile.cuh"
#include "ops/cuda_block.cuh"

namespace headloom::cuda {
namespace {

using namespace simt;
using tile::kGroups;
using tile::kRows;
using tile::kThreads;

constexpr float kLog2E = 1.4426950408889634F;

/// Where a head's statistics begin in lse and delta.
SIMT_FN std::int64_t statistics_of(const AttendSizes& d, int b, int h) {
  return (static_cast<std::int64_t>(b) * d.heads + h) * d.seq;
}

template <int HS>
SIMT_KERNEL(kThreads, 1)
void tile_forward(AttendForward<bf16> p) {
  const AttendSizes& d = p.sizes;
  const int b = block_x() / d.heads, h = block_x() % d.heads, kv = h / (d.heads / d.kv_heads);
  const int blocks = (d.seq + kRows - 1) / kRows;
  const int query_block = blocks - 1 - block_y();
  const int first_query = query_block * kRows;

  DynamicShared memory;
  const Shared<bf16> q_tile = memory.take<bf16>(tile::kElements<HS>);
  const Shared<bf16> k_tiles = memory.take<bf16>(2 * tile::kElements<HS>);
  const Shared<bf16> v_tiles = memory.take<bf16>(2 * tile::kElements<HS>);
  const auto fetch_keys = [&](int block) {
    const int at = (block & 1) * tile::kElements<HS>;
    tile::fetch<HS>(k_tiles.subspan(at, tile::kElements<HS>), rows_of(p.k, b, kv), p.k.seq,
                    block * kRows, d.seq);
    tile::fetch<HS>(v_tiles.subspan(at, tile::kElements<HS>), rows_of(p.v, b, kv), p.v.seq,
                    block * kRows, d.seq);
  };

  tile::fetch<HS>(q_tile, rows_of(p.q, b, h), p.q.seq, first_query, d.seq);
  fetch_keys(0);
  cp_async_commit();

  const float scale = p.scale * kLog2E;
  const int row = 16 * warp() + lane() / 4;  // this lane's rows: row and row + 8
  float o[HS / 8][4] = {};
  float top[2] = {-INFINITY, -INFINITY};  // of the unscaled scores
  float sum[2] = {0.0F, 0.0F};            // this lane's share
  std::uint32_t q[HS / 16][4];

  for (int block = 0; block <= query_block; ++block) {
    cp_async_wait<0>();
    barrier();
    if (block < query_block) {
      fetch_keys(block + 1);
      cp_async_commit();
    }
    if (block == 0) tile::load_rows<HS>(q, q_tile, 16 * warp());

    float s[kGroups][4];
    const int at = (block & 1) * tile::kElements<HS>;
    tile::scores<HS>(s, q, k_tiles.subspan(at, tile::kElements<HS>));
    if (block == query_block) {  // the diagonal; also covers keys past the end
      SIMT_UNROLL
      for (int n = 0; n < kGroups; ++n) {
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i)
          if (8 * n + 2 * (lane() % 4) + (i & 1) > row + 8 * (i >> 1)) s[n][i] = -INFINITY;
      }
    }
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      // Key 0 is never masked, so from the first block on the maximum is finite.
      float most = top[half];
      SIMT_UNROLL
      for (int n = 0; n < kGroups; ++n)
        most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      most = tile::quad_max(most);
      const float shrink = fast_exp2((top[half] - most) * scale);
      top[half] = most;
      sum[half] *= shrink;
      SIMT_UNROLL
      for (int n = 0; n < kGroups; ++n) {
        SIMT_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          s[n][i] = fast_exp2(s[n][i] * scale - most * scale);
          sum[half] += s[n][i];
        }
      }
      SIMT_UNROLL
      for (int n = 0; n < HS / 8; ++n) {
        o[n][2 * half] *= shrink;
        o[n][2 * half + 1] *= shrink;
      }
    }
    tile::accumulate<HS>(o, s, v_tiles.subspan(at, tile::kElements<HS>));
  }

  const std::int64_t stats = statistics_of(d, b, h);
  const float gate = gate_of(p.gate, h);
  float inverse[2];
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float total = tile::quad_sum(sum[half]);
    inverse[half] = gate / total;
    const int query = first_query + row + 8 * half;
    if (lane() % 4 == 0 && query < d.seq) p.lse[stats + query] = top[half] * p.scale + logf(total);
  }
  tile::store_rows<HS>(rows_of(p.out, b, h), p.out.seq, first_query + 16 * warp(), d.seq, o,
                       inverse, q_tile);
}

/// delta[b,h,t] = sum over HS of dout * out. One warp to a row.
template <int HS>
SIMT_KERNEL(kThreads, 1)
void backward_delta(AttendBackward<bf16> p) {
  const AttendSizes& d = p.sizes;
  const std::int64_t row = static_cast<std::int64_t>(block_x()) * (kThreads / 32) + warp();
  if (row >= static_cast<std::int64_t>(d.batch) * d.seq * d.heads) return;  // a whole warp
  const std::int64_t token = row / d.heads, t = token % d.seq;
  const int b = static_cast<int>(token / d.seq), h = static_cast<int>(row % d.heads);
  const bf16* out = rows_of(p.out, b, h) + t * p.out.seq;
  const bf16* dout = rows_of(p.dout, b, h) + t * p.dout.seq;
  float sum = 0.0F;
  for (int i = lane(); i < HS; i += 32) sum += to_float(dout[i]) * to_float(out[i]);
  sum = warp_sum(sum);
  if (lane() == 0) p.delta[statistics_of(d, b, h) + t] = sum;
}

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
  const Shared<bf16> k_tiles = memory.take<bf16>(2 * tile::kElements<HS>);
  const Shared<bf16> v_tiles = memory.take<bf16>(2 * tile::kElements<HS>);
  const auto fetch_keys = [&](int block) {
    const int at = (block & 1) * tile::kElements<HS>;
    tile::fetch<HS>(k_tiles.subspan(at, tile::kElements<HS>), rows_of(p.k, b, kv), p.k.seq,
                    block * kRows, d.seq);
    tile::fetch<HS>(v_tiles.subspan(at, tile::kElements<HS>), rows_of(p.v, b, kv), p.v.seq,
                    block * kRows, d.seq);
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
  std::uint32_t q[HS / 16][4], dout[HS / 16][4];

  for (int block = 0; block <= query_block; ++block) {
    cp_async_wait<0>();
    barrier();
    if (block < query_block) {
      fetch_keys(block + 1);
      cp_async_commit();
    }
    if (block == 0) {
      tile::load_rows<HS>(q, q_tile, 16 * warp());
      tile::load_rows<HS>(dout, do_tile, 16 * warp());
    }
    const int at = (block & 1) * tile::kElements<HS>;
    const Shared<bf16> k_tile = k_tiles.subspan(at, tile::kElements<HS>);
    float s[kGroups][4], dp[kGroups][4];
    tile::scores<HS>(s, q, k_tile);
    tile::scores<HS>(dp, dout, v_tiles.subspan(at, tile::kElements<HS>));
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
/// S^T = K Q^T, dP^T = V dO^T, dV = P^T dO, dK = scale dS^T Q.
template <int HS>
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
  const Shared<bf16> q_tiles = memory.take<bf16>(2 * tile::kElements<HS>);
  const Shared<bf16> do_tiles = memory.take<bf16>(2 * tile::kElements<HS>);
  const Shared<float> lse = memory.take<float>(2 * kRows);
  const Shared<float> delta = memory.take<float>(2 * kRows);

  const int per_head = blocks - key_block, steps = group * per_head;
  const auto fetch_queries = [&](int step) {
    const int h = first_head + step / per_head;
    const std::int64_t stats = statistics_of(d, b, h);
    const int first = (key_block + step % per_head) * kRows;
    const int at = (step & 1) * tile::kElements<HS>;
    tile::fetch<HS>(q_tiles.subspan(at, tile::kElements<HS>), rows_of(p.q, b, h), p.q.seq, first,
                    d.seq);
    tile::fetch<HS>(do_tiles.subspan(at, tile::kElements<HS>), rows_of(p.dout, b, h), p.dout.seq,
                    first, d.seq);
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
  float dk[HS / 8][4] = {}, dv[HS / 8][4] = {};
  std::uint32_t k[HS / 16][4], v[HS / 16][4];

  for (int step = 0; step < steps; ++step) {
    cp_async_wait<0>();
    barrier();
    if (step + 1 < steps) {
      fetch_queries(step + 1);
      cp_async_commit();
    }
    if (step == 0) {
      tile::load_rows<HS>(k, k_tile, 16 * warp());
      tile::load_rows<HS>(v, v_tile, 16 * warp());
    }
    const bool diagonal = step % per_head == 0;
    const float gate = gate_of(p.gate, first_head + step / per_head);
    const int at = (step & 1) * tile::kElements<HS>, slots = (step & 1) * kRows;
    const Shared<bf16> q_tile = q_tiles.subspan(at, tile::kElements<HS>);
    const Shared<bf16> do_tile = do_tiles.subspan(at, tile::kElements<HS>);
    float s[kGroups][4], ds[kGroups][4];
    tile::scores<HS>(s, k, q_tile);
    tile::scores<HS>(ds, v, do_tile);
    SIMT_UNROLL
    for (int n = 0; n < kGroups; ++n) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int query = 8 * n + 2 * (lane() % 4) + (i & 1);
        const bool seen = !diagonal || row + 8 * (i >> 1) <= query;
        const float prob = seen ? fast_exp2(s[n][i] * scale - lse[slots + query]) : 0.0F;
        ds[n][i] = prob * (gate * ds[n][i] - delta[slots + query]);
        s[n][i] = gate * prob;
      }
    }
    tile::accumulate<HS>(dv, s, do_tile);
    tile::accumulate<HS>(dk, ds, q_tile);
  }
  const float one[2] = {1.0F, 1.0F}, factor[2] = {p.scale, p.scale};
  tile::store_rows<HS>(rows_of(p.dk, b, kv), p.dk.seq, first_key + 16 * warp(), d.seq, dk, factor,
                       k_tile);
  tile::store_rows<HS>(rows_of(p.dv, b, kv), p.dv.seq, first_key + 16 * warp(), d.seq, dv, one,
                       v_tile);
}

template <int HS>
LaunchShape shape_of(const AttendSizes& d, int heads, int tiles) {
  return {.grid = {static_cast<unsigned>(d.batch * heads),
                   static_cast<unsigned>((d.seq + kRows - 1) / kRows)},
          .block = {kThreads},
          .dynamic_shared = static_cast<std::size_t>(tiles) * tile::kElements<HS> * sizeof(bf16)};
}

}  // namespace

template <int HS>
void attend_tile_forward(const AttendForward<bf16>& p) {
  launch("attend_tile_forward", tile_forward<HS>, shape_of<HS>(p.sizes, p.sizes.heads, 5), p);
}

template <int HS>
void attend_tile_backward(const AttendBackward<bf16>& p) {
  const AttendSizes& d = p.sizes;
  const int rows = d.batch * d.seq * d.heads, warps = kThreads / 32;
  launch(
      "attend_backward_delta", backward_delta<HS>,
      LaunchShape{.grid = {static_cast<unsigned>((rows + warps - 1) / warps)}, .block = {kThreads}},
      p);
  launch("attend_backward_dq", backward_dq<HS>, shape_of<HS>(d, d.heads, 6), p);
  LaunchShape shape = shape_of<HS>(d, d.kv_heads, 6);
  shape.dynamic_shared += 4 * kRows * sizeof(float);
  launch("attend_backward_dkv", backward_dkv<HS>, shape, p);
}

template void attend_tile_forward<32>(const AttendForward<bf16>&);
template void attend_tile_forward<64>(const AttendForward<bf16>&);
template void attend_tile_forward<96>(const AttendForward<bf16>&);
template void attend_tile_forward<128>(const AttendForward<bf16>&);
template void attend_tile_backward<32>(const AttendBackward<bf16>&);
template void attend_tile_backward<64>(const AttendBackward<bf16>&);

}  // namespace headloom::cuda
