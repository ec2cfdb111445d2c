#pragma once

#include "ops/cuda_kernels.h"
#include "simt/simt.h"

/// What blocks of threads do together.
namespace headloom::cuda {

inline constexpr int kBlockThreads = 128;
inline constexpr int kBlockWarps = kBlockThreads / 32;

SIMT_FN float warp_max(float v) {
  for (int mask = 16; mask > 0; mask /= 2) v = fmaxf(v, simt::shfl_xor(v, mask));
  return v;
}
SIMT_FN float warp_sum(float v) {
  for (int mask = 16; mask > 0; mask /= 2) v += simt::shfl_xor(v, mask);
  return v;
}

/// The sum, or the maximum, over a block of kBlockThreads, for every thread of it. `partial` has a
/// place for each warp; two uses of the same one need a barrier in between, which this ends with.
SIMT_FN float block_sum(float v, const simt::Shared<float>& partial) {
  v = warp_sum(v);
  if (simt::lane() == 0) partial[simt::warp()] = v;
  simt::barrier();
  v = 0.0F;
  for (int w = 0; w < kBlockWarps; ++w) v += partial[w];
  simt::barrier();
  return v;
}
SIMT_FN float block_max(float v, const simt::Shared<float>& partial) {
  v = warp_max(v);
  if (simt::lane() == 0) partial[simt::warp()] = v;
  simt::barrier();
  v = partial[0];
  for (int w = 1; w < kBlockWarps; ++w) v = fmaxf(v, partial[w]);
  simt::barrier();
  return v;
}

/// Part `part` of `parts` equal ones of `rows` rows.
struct RowRange {
  std::int64_t begin, end;
};
SIMT_FN RowRange part_of(std::int64_t rows, int part, int parts) {
  return {rows * part / parts, rows * (part + 1) / parts};
}

/// Into how many parts rows are cut to be summed: by their number alone, so that every card adds up
/// in the same order.
inline int parts_of(std::int64_t rows) {
  return static_cast<int>(rows < 1 ? 1 : rows < kColumnParts ? rows : kColumnParts);
}

/// A grid of blocks of kBlockThreads with a thread for each of `count`, at most 65,535 blocks:
/// longer lists are walked by strides of the grid.
inline simt::LaunchShape threads_for(std::int64_t count) {
  const std::int64_t blocks = (count + kBlockThreads - 1) / kBlockThreads;
  const std::int64_t most = 65535;
  return {.grid = {static_cast<unsigned>(blocks < 1      ? 1
                                         : blocks < most ? blocks
                                                         : most)},
          .block = {kBlockThreads}};
}
SIMT_FN std::int64_t first_item() {
  return static_cast<std::int64_t>(simt::block_x()) * kBlockThreads + simt::thread_x();
}
SIMT_FN std::int64_t item_stride() {
  return static_cast<std::int64_t>(simt::grid_dim_x()) * kBlockThreads;
}

}  // namespace headloom::cuda
