// Tiled causal attention on tensor cores, forward, after FlashAttention-2 (Dao 2023, algorithm 1).
// bf16 operands, fp32 accumulation.
//
// Block 128 (4 warps, 16 rows each), grid (B * NH, T / 64), the longest blocks first. One barrier
// per tile: wait for this tile's copies, barrier, start the next tile's copies into the buffer that
// everyone has left, compute.

#include "ops/attend_tile.cuh"

namespace headloom::cuda {
namespace {

using namespace simt;
using tile::kGroups;
using tile::kLog2E;
using tile::kRows;
using tile::kThreads;
using tile::statistics_of;

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
  const tile::Pairs<HS> keys(memory);
  const auto fetch_keys = [&](int block) {
    keys.fetch(block, rows_of(p.k, b, kv), p.k.seq, rows_of(p.v, b, kv), p.v.seq, block * kRows,
               d.seq);
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
    tile::scores<HS>(s, q, keys.left(block));
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
    tile::accumulate<HS>(o, s, keys.right(block));
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

}  // namespace

template <int HS>
void attend_tile_forward(const AttendForward<bf16>& p) {
  launch("attend_tile_forward", tile_forward<HS>, tile::shape_of<HS>(p.sizes, p.sizes.heads, 5), p);
}

template void attend_tile_forward<32>(const AttendForward<bf16>&);
template void attend_tile_forward<64>(const AttendForward<bf16>&);
template void attend_tile_forward<96>(const AttendForward<bf16>&);
template void attend_tile_forward<128>(const AttendForward<bf16>&);

}  // namespace headloom::cuda
