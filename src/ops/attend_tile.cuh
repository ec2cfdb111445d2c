#pragma once
// Products of 64-row tiles on tensor cores, one warp to 16 rows. Three pieces make attention:
//
//   scores:     S[16 x 64]  = A[16 x HS] . B[64 x HS]^T    A in registers, B a tile
//   accumulate: O[16 x HS] += P[16 x 64] . B[64 x HS]      P the registers that scores left
//   load_rows:  the 16 rows of a tile that belong to this warp, as A
//
// Tiles are [64][HS] bf16 in shared memory, swizzled by 16-byte chunks so that the eight rows that
// ldmatrix reads together lie in eight different groups of banks.
//
// An accumulator S holds, for each group of 8 columns n: S[n][0], S[n][1] at row lane/4, columns
// 8n + 2(lane%4) and the next; S[n][2], S[n][3] at row lane/4 + 8.

#include "ops/attend_cuda.h"

namespace headloom::tile {

using namespace simt;

constexpr int kRows = 64;
constexpr int kThreads = 128;
constexpr int kGroups = kRows / 8;  // column groups of a score tile

template <int HS>
constexpr int kElements = kRows* HS;

/// Where chunk `chunk` of row `row` lies in a tile.
template <int HS>
SIMT_FN int at(int row, int chunk) {
  constexpr int kChunks = HS / 8;
  static_assert(kChunks % 4 == 0, "head_dim must be a multiple of 32");
  const int twist = kChunks % 8 == 0 ? row & 7 : (row >> 1) & 3;
  return row * HS + (chunk ^ twist) * 8;
}

/// Starts copying rows first..first+63 of a matrix with `stride`; rows from `limit` on are zero.
template <int HS>
SIMT_FN void fetch(Shared<bf16> to, const bf16* from, std::int64_t stride, int first, int limit) {
  constexpr int kChunks = HS / 8;
  SIMT_UNROLL
  for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
    const int n = i * kThreads + thread_x();
    const int row = n / kChunks, chunk = n % kChunks;
    const bool valid = first + row < limit;
    cp_async_16(to, at<HS>(row, chunk), from + (valid ? first + row : 0) * stride + chunk * 8,
                valid);
  }
}

/// Two tiles at a time (keys and values, or queries and dO), in two buffers each: one pair is
/// multiplied while the next is on its way.
template <int HS>
struct Pairs {
  Shared<bf16> left_tiles, right_tiles;

  SIMT_FN explicit Pairs(DynamicShared& memory)
      : left_tiles(memory.take<bf16>(2 * kElements<HS>)),
        right_tiles(memory.take<bf16>(2 * kElements<HS>)) {}
  SIMT_FN void fetch(int step, const bf16* left, std::int64_t left_stride, const bf16* right,
                     std::int64_t right_stride, int first, int limit) const {
    tile::fetch<HS>(this->left(step), left, left_stride, first, limit);
    tile::fetch<HS>(this->right(step), right, right_stride, first, limit);
  }
  SIMT_FN Shared<bf16> left(int step) const {
    return left_tiles.subspan(buffer(step), kElements<HS>);
  }
  SIMT_FN Shared<bf16> right(int step) const {
    return right_tiles.subspan(buffer(step), kElements<HS>);
  }
  SIMT_FN static int buffer(int step) { return (step & 1) * kElements<HS>; }
};

template <int HS>
SIMT_FN void load_rows(std::uint32_t (&a)[HS / 16][4], Shared<bf16> from, int first_row) {
  SIMT_UNROLL
  for (int k = 0; k < HS / 16; ++k)
    ldmatrix_x4(a[k], from, at<HS>(first_row + (lane() & 15), 2 * k + (lane() >> 4)));
}

/// Adds the part of the scores that channels 16k ... 16k + 15 make.
template <int HS>
SIMT_FN void add_scores(float (&s)[kGroups][4], const std::uint32_t (&a)[4], int k,
                        Shared<bf16> b) {
  SIMT_UNROLL
  for (int n = 0; n < kGroups; n += 2) {
    std::uint32_t r[4];
    const int row = 8 * n + (lane() & 7) + (lane() >> 4) * 8;
    ldmatrix_x4(r, b, at<HS>(row, 2 * k + ((lane() >> 3) & 1)));
    mma_m16n8k16(s[n], a, r[0], r[1]);
    mma_m16n8k16(s[n + 1], a, r[2], r[3]);
  }
}

template <int HS>
SIMT_FN void scores(float (&s)[kGroups][4], const std::uint32_t (&a)[HS / 16][4], Shared<bf16> b) {
  SIMT_UNROLL
  for (int n = 0; n < kGroups; ++n) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0F;
  SIMT_UNROLL
  for (int k = 0; k < HS / 16; ++k) add_scores<HS>(s, a[k], k, b);
}

template <int HS>
SIMT_FN void accumulate(float (&o)[HS / 8][4], const float (&p)[kGroups][4], Shared<bf16> b) {
  SIMT_UNROLL
  for (int k = 0; k < kGroups / 2; ++k) {
    const float(&left)[4] = p[2 * k];
    const float(&right)[4] = p[2 * k + 1];
    const std::uint32_t a[4] = {pack_bf16(left[0], left[1]), pack_bf16(left[2], left[3]),
                                pack_bf16(right[0], right[1]), pack_bf16(right[2], right[3])};
    SIMT_UNROLL
    for (int n = 0; n < HS / 8; n += 2) {
      std::uint32_t r[4];
      ldmatrix_x4_trans(r, b, at<HS>(16 * k + (lane() & 15), n + (lane() >> 4)));
      mma_m16n8k16(o[n], a, r[0], r[1]);
      mma_m16n8k16(o[n + 1], a, r[2], r[3]);
    }
  }
}

/// Writes 16 accumulated rows, row r times factor[r / 8], to rows first.. of a matrix, as far as
/// `limit`. Goes through the warp's own rows of `scratch` to make the stores 16 bytes wide.
template <int HS>
SIMT_FN void store_rows(bf16* to, std::int64_t stride, int first, int limit,
                        const float (&o)[HS / 8][4], const float (&factor)[2],
                        Shared<bf16> scratch) {
  const int mine = 16 * warp();
  warp_sync();  // other lanes have read these rows for this one by ldmatrix
  SIMT_UNROLL
  for (int n = 0; n < HS / 8; ++n) {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half)
      store_4(scratch, at<HS>(mine + lane() / 4 + 8 * half, n) + 2 * (lane() % 4),
              pack_bf16(o[n][2 * half] * factor[half], o[n][2 * half + 1] * factor[half]));
  }
  warp_sync();
  constexpr int kChunks = HS / 8;
  SIMT_UNROLL
  for (int i = 0; i < 16 * kChunks / 32; ++i) {
    const int n = i * 32 + lane();
    const int row = n / kChunks, chunk = n % kChunks;
    if (first + row < limit)
      store_16(to + (first + row) * stride + chunk * 8,
               load_16(scratch, at<HS>(mine + row, chunk)));
  }
}

/// As scores, with A the 16 rows from `first_row` of a tile, read again at every use: where HS is
/// so wide that A would not fit into registers beside the accumulators.
template <int HS>
SIMT_FN void scores_of_rows(float (&s)[kGroups][4], Shared<bf16> a_tile, int first_row,
                            Shared<bf16> b) {
  SIMT_UNROLL
  for (int n = 0; n < kGroups; ++n) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0F;
  SIMT_UNROLL
  for (int k = 0; k < HS / 16; ++k) {
    std::uint32_t a[4];
    ldmatrix_x4(a, a_tile, at<HS>(first_row + (lane() & 15), 2 * k + (lane() >> 4)));
    add_scores<HS>(s, a, k, b);
  }
}

SIMT_FN float quad_max(float v) {
  v = fmaxf(v, shfl_xor(v, 1));
  return fmaxf(v, shfl_xor(v, 2));
}
SIMT_FN float quad_sum(float v) {
  v += shfl_xor(v, 1);
  return v + shfl_xor(v, 2);
}

using cuda::AttendSizes;
constexpr float kLog2E = 1.4426950408889634F;

/// Where a head's statistics begin in lse and delta.
SIMT_FN std::int64_t statistics_of(const AttendSizes& d, int b, int h) {
  return (static_cast<std::int64_t>(b) * d.heads + h) * d.seq;
}

/// A block to every 64 rows of `heads` heads, with so many tiles of shared memory.
template <int HS>
LaunchShape shape_of(const AttendSizes& d, int heads, int tiles) {
  return {.grid = {static_cast<unsigned>(d.batch * heads),
                   static_cast<unsigned>((d.seq + kRows - 1) / kRows)},
          .block = {kThreads},
          .dynamic_shared = static_cast<std::size_t>(tiles) * kElements<HS> * sizeof(bf16)};
}

}  // namespace headloom::tile
