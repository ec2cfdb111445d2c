// Register tiles: M rows of kN vectors that stay in registers while a product grows in them, once
// per instruction set. The multiplication of matrices and attention are made of them.
#if defined(HEADLOOM_OPS_REGISTER_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADLOOM_OPS_REGISTER_TILE_INL_H_
#undef HEADLOOM_OPS_REGISTER_TILE_INL_H_
#else
#define HEADLOOM_OPS_REGISTER_TILE_INL_H_
#endif

#include <cstdint>

#include "ops/simd_math-inl.h"

#ifndef HEADLOOM_UNROLL
#define HEADLOOM_UNROLL _Pragma("GCC unroll 16")
#endif

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

inline constexpr std::int64_t kLanes = hn::MaxLanes(F());

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

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
