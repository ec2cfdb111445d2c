// Rearranging matrices into the order in which a kernel reads them, once per instruction set.
#if defined(HEADLOOM_OPS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADLOOM_OPS_PACK_INL_H_
#undef HEADLOOM_OPS_PACK_INL_H_
#else
#define HEADLOOM_OPS_PACK_INL_H_
#endif

#include <cstdint>

#include "hwy/cache_control.h"
#include "ops/register_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

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
    if (--stream.count == 0) {
      --size_;
    } else {
      stream.rows += stream.stride;
    }
  }

 private:
  struct Stream {
    const float* rows;
    std::int64_t stride, count, n;
  };
  Stream streams_[5];
  int size_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
