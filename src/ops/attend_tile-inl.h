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

#include "hwy/cache_control.h"
#include "ops/simd_math-inl.h"

#define HEADLOOM_UNROLL _Pragma("GCC unroll 16")

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

inline constexpr std::int64_t kLanes = hn::MaxLanes(F());
/// 24 accumulators of AVX-512's 32 registers; 12 of the 16 that others have.
inline constexpr int kVecs = kLanes == 16 ? 4 : 2;
inline constexpr int kRows = 6;
/// Queries in a block.
inline constexpr std::int64_t kBlock = kVecs * kLanes;

/// kN vectors from `first` on of M rows.
template <int M, int kN>
using Tile = V[M][kN];

template <int kFirst, int M, int kN>
HWY_INLINE void tile_zero(Tile<M, kN>& c) {
  HEADLOOM_UNROLL for (int i = 0; i < M; ++i) {
    HEADLOOM_UNROLL for (int v = kFirst; v < kN; ++v) c[i][v] = hn::Zero(F());
  }
}

template <int M, int kN>
HWY_INLINE void tile_load(Tile<M, kN>& c, const float* p, std::int64_t stride) {
  HEADLOOM_UNROLL for (int i = 0; i < M; ++i) {
    HEADLOOM_UNROLL for (int v = 0; v < kN; ++v) {
      c[i][v] = hn::LoadU(F(), p + i * stride + v * kLanes);
    }
  }
}

template <int M, int kN>
HWY_INLINE void tile_store(const Tile<M, kN>& c, float* p, std::int64_t stride) {
  HEADLOOM_UNROLL for (int i = 0; i < M; ++i) {
    HEADLOOM_UNROLL for (int v = 0; v < kN; ++v) {
      hn::StoreU(c[i][v], F(), p + i * stride + v * kLanes);
    }
  }
}

/// c[i][v] += sum over n steps of a[i a_row + k a_step] * (vector v of row k of b), for v >=
/// kFirst.
template <int kFirst, int M, int kN>
HWY_INLINE void tile_multiply(Tile<M, kN>& c, const float* a, std::int64_t a_row,
                              std::int64_t a_step, const float* b, std::int64_t b_step,
                              std::int64_t n) {
  const F d;
  for (std::int64_t k = 0; k < n; ++k) {
    V row[kN];
    HEADLOOM_UNROLL for (int v = kFirst; v < kN; ++v) row[v] = hn::LoadU(d, b + v * kLanes);
    HEADLOOM_UNROLL for (int i = 0; i < M; ++i) {
      const V x = hn::Set(d, a[i * a_row]);
      HEADLOOM_UNROLL for (int v = kFirst; v < kN; ++v) c[i][v] = hn::MulAdd(x, row[v], c[i][v]);
    }
    a += a_step;
    b += b_step;
  }
}

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

#if HWY_TARGET != HWY_SCALAR
/// Four rows of kLanes columns, transposed: columns[c][i] at dst + c dst_stride + i.
HWY_INLINE void transpose_four(const V (&row)[4], float* dst, std::int64_t dst_stride) {
  const F d;
  const hn::FixedTag<float, 4> quad;
  const hn::Repartition<double, F> wide;
  HWY_ALIGN float columns[4 * kLanes];
  // Inside each 128-bit piece of four columns this is a 4 x 4 transposition.
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, row[0], row[1]));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, row[2], row[3]));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, row[0], row[1]));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, row[2], row[3]));
  hn::Store(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), d, columns);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), d, columns + kLanes);
  hn::Store(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), d, columns + 2 * kLanes);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), d, columns + 3 * kLanes);
  for (std::int64_t i = 0; i < kLanes; ++i) {
    const float* piece = columns + i % 4 * kLanes + i / 4 * 4;
    hn::StoreU(hn::Load(quad, piece), quad, dst + i * dst_stride);
  }
}
#endif

/// dst[c][r] = factor * src[r][c] for r < rows, c < cols.
inline void transpose(const float* src, std::int64_t src_stride, std::int64_t rows,
                      std::int64_t cols, float factor, float* dst, std::int64_t dst_stride) {
  std::int64_t whole_rows = 0, whole_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  whole_rows = rows / 4 * 4;
  whole_cols = cols / kLanes * kLanes;
  const V scale = hn::Set(F(), factor);
  for (std::int64_t r = 0; r < whole_rows; r += 4) {
    for (std::int64_t c = 0; c < whole_cols; c += kLanes) {
      V row[4];
      HEADLOOM_UNROLL for (int i = 0; i < 4; ++i) {
        row[i] = hn::Mul(scale, hn::LoadU(F(), src + (r + i) * src_stride + c));
      }
      transpose_four(row, dst + c * dst_stride + r, dst_stride);
    }
  }
#endif
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = r < whole_rows ? whole_cols : 0; c < cols; ++c) {
      dst[c * dst_stride + r] = factor * src[r * src_stride + c];
    }
  }
}

/// Rows that will be packed later, fetched into the cache one at a time between tiles: each lies on
/// another page, and waiting for memory is what packing would otherwise do.
class RowPrefetch {
 public:
  void add(const float* rows, std::int64_t stride, std::int64_t count, std::int64_t n) {
    if (count > 0) streams_[size_++] = {rows, stride, count, n};
  }
  /// Fetches the next row, if one is left.
  HWY_INLINE void next() {
    if (size_ == 0) return;
    Stream& stream = streams_[size_ - 1];
    for (std::int64_t c = 0; c < stream.n; c += 16) hwy::Prefetch(stream.rows + c);
    stream.rows += stream.stride;
    if (--stream.count == 0) --size_;
  }

 private:
  struct Stream {
    const float* rows;
    std::int64_t stride, count, n;
  };
  Stream streams_[5];
  int size_ = 0;
};

/// Copies rows of n floats to rows of `width` >= n, filling up with zeros.
inline void pack_rows(const float* src, std::int64_t src_stride, std::int64_t rows, std::int64_t n,
                      float* dst, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < n; c += kLanes) {
      store_n(load_n(src + r * src_stride + c, n - c), dst + r * width + c, n - c);
    }
    for (std::int64_t c = n; c < width; ++c) dst[r * width + c] = 0;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
