// Register tiles of the attention kernels, once per instruction set.
//
// Everything is laid out with queries in the SIMD lanes: a block of kBlock queries is one row of
// kVecs vectors, and scores are kept transposed, S^T[key][query]. Keys and values are then
// broadcast operands that are read as they lie, row maxima and sums are vertical, and a head_dim
// needs no padding. A tile is kRows rows of kVecs vectors, as many accumulators as the registers
// hold.
#if defined(HEADLOOM_OPS_ATTEND_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADLOOM_OPS_ATTEND_TILE_INL_H_
#undef HEADLOOM_OPS_ATTEND_TILE_INL_H_
#else
#define HEADLOOM_OPS_ATTEND_TILE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "ops/pack-inl.h"
#include "ops/register_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

/// 24 accumulators of AVX-512's 32 registers; 12 of the 16 that others have.
inline constexpr int kVecs = kLanes == 16 ? 4 : 2;
inline constexpr int kRows = 6;
/// Queries in a block.
inline constexpr std::int64_t kBlock = kVecs * kLanes;

/// Lanes of vector v whose query may look at key `key`; query lane 0 stands at position `first`.
HWY_INLINE Mask visible(std::int64_t key, std::int64_t first, int v) {
  const std::int64_t hidden = key - (first + v * kLanes);
  if (hidden <= 0) return hn::Not(hn::FirstN(F(), 0));
  return hn::Not(hn::FirstN(F(), static_cast<std::size_t>(std::min(hidden, kLanes))));
}

/// First vector of the block at position `first` that has a query at or after `key`.
HWY_INLINE int first_vector(std::int64_t key, std::int64_t first) {
  return key <= first ? 0 : static_cast<int>((key - first) / kLanes);
}

/// Keys of [begin, end) for which vectors from kFirst on, and none before, have a query that looks.
template <int kFirst>
HWY_INLINE void key_segment(std::int64_t begin, std::int64_t end, std::int64_t first,
                            std::int64_t* from, std::int64_t* to) {
  *from = kFirst == 0 ? begin : std::max(begin, first + kFirst * kLanes);
  *to = kFirst == kVecs - 1 ? end : std::min(end, first + (kFirst + 1) * kLanes);
}

/// c[i][v] += sum over keys [begin, end) of x[key][i] * p[key][v], leaving out what is masked
/// whole. x and p point at the row of key `begin`.
template <int kFirst, int M>
HWY_INLINE void tile_over_keys(Tile<M, kVecs>& c, const float* x, std::int64_t x_stride,
                               const float* p, std::int64_t begin, std::int64_t end,
                               std::int64_t first) {
  if constexpr (kFirst < kVecs) {
    std::int64_t from, to;
    key_segment<kFirst>(begin, end, first, &from, &to);
    if (to > from) {
      tile_multiply<kFirst>(c, x + (from - begin) * x_stride, 1, x_stride,
                            p + (from - begin) * kBlock, kBlock, to - from);
    }
    tile_over_keys<kFirst + 1>(c, x, x_stride, p, begin, end, first);
  }
}

template <int M>
void rows_over_keys(const float* x, std::int64_t x_stride, const float* p, float* out,
                    std::int64_t begin, std::int64_t end, std::int64_t first, bool overwrite) {
  Tile<M, kVecs> c;
  if (overwrite) {
    tile_zero<0>(c);
  } else {
    tile_load(c, out, kBlock);
  }
  tile_over_keys<0>(c, x, x_stride, p, begin, end, first);
  tile_store(c, out, kBlock);
}

/// out[d][query] (= or +=) sum over keys [begin, end) of x[key][d] * p[key][query], d < width.
/// Rows of x are `width` apart. The remainder of width / kRows is shared out over two last tiles.
HWY_INLINE void accumulate_over_keys(const float* x, std::int64_t width, const float* p, float* out,
                                     std::int64_t begin, std::int64_t end, std::int64_t first,
                                     bool overwrite) {
  const auto rows = [&](auto count, std::int64_t d) HWY_ATTR {
    rows_over_keys<decltype(count)::value>(x + d, width, p, out + d * kBlock, begin, end, first,
                                           overwrite);
  };
  std::int64_t d = 0;
  std::int64_t whole = width;
  const std::int64_t rest = width % kRows;
  if (rest != 0) whole = width > kRows ? width - rest - kRows : 0;
  for (; d < whole; d += kRows) rows(std::integral_constant<int, kRows>(), d);
  while (d < width) {
    const std::int64_t left = width - d;
    const std::int64_t count = left > kRows ? (left + 1) / 2 : left;
    switch (count) {
      case 1:
        rows(std::integral_constant<int, 1>(), d);
        break;
      case 2:
        rows(std::integral_constant<int, 2>(), d);
        break;
      case 3:
        rows(std::integral_constant<int, 3>(), d);
        break;
      case 4:
        rows(std::integral_constant<int, 4>(), d);
        break;
      case 5:
        rows(std::integral_constant<int, 5>(), d);
        break;
      default:
        rows(std::integral_constant<int, 6>(), d);
        break;
    }
    d += count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
