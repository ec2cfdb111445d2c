// SIMD mathematics shared by the CPU kernels, once per instruction set (see Highway's -inl.h
// files).
#if defined(HEADLOOM_OPS_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADLOOM_OPS_SIMD_MATH_INL_H_
#undef HEADLOOM_OPS_SIMD_MATH_INL_H_
#else
#define HEADLOOM_OPS_SIMD_MATH_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// At most 16 floats, so that arrays of vectors have a size known to the compiler.
using F = hn::CappedTag<float, 16>;
using V = hn::Vec<F>;
using Mask = hn::Mask<F>;

inline constexpr float kLog2E = 1.44269504088896340736F;
inline constexpr float kLn2 = 0.693147180559945309417F;

/// 2^x for x <= 127: 0 below -126 (-inf included), NaN for NaN. Relative error below 2e-7.
/// Range reduction to an interval of length 1 and a polynomial of degree 5 (minimax, relative error
/// 7.5e-8).
#if HWY_TARGET == HWY_AVX3
HWY_INLINE V exp2_approx(V x) {
  // AVX-512 has both halves of the work as instructions, which Highway does not name: x - floor(x),
  // and p 2^floor(x). Eight operations instead of thirteen, in the innermost loop of attention.
  const F d;
  constexpr int kMinusFloor = 0x09;
  const V r{_mm512_reduce_ps(x.raw, kMinusFloor)};
  V p = hn::Set(d, 0.00187757665842F);
  p = hn::MulAdd(p, r, hn::Set(d, 0.0089893401311F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0558263180192F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.240153617056F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.693153073199F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.999999925064F));
  const __mmask16 normal = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-126.0F), _CMP_NLT_UQ);
  return V{_mm512_maskz_scalef_ps(normal, p.raw, x.raw)};
}
#else
HWY_INLINE V exp2_approx(V x) {
  const F d;
  const hn::RebindToSigned<F> di;
  const auto n = hn::NearestInt(x);
  const V r = hn::Sub(x, hn::ConvertTo(d, n));
  V p = hn::Set(d, 0.00132764721678F);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00967554133102F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0555071327288F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.24022119724F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.693146967065F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.00000007165F));
  // Multiplying by 2^n, rather than adding n to the exponent, keeps a NaN a NaN.
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.0F)), hn::Mul(p, power));
}
#endif

/// e^x, same range (in units of ln 2) and error as exp2_approx.
HWY_INLINE V exp_approx(V x) {
  const F d;
  return exp2_approx(hn::Mul(x, hn::Set(d, kLog2E)));
}

/// 1 / (1 + e^-x), for every x.
HWY_INLINE V sigmoid(V x) {
  const F d;
  const V one = hn::Set(d, 1.0F);
  // e^-x stays below 2^127; the sigmoid is 0 to rounding long before.
  const V floored = hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.0F)), hn::Set(d, -87.0F), x);
  return hn::Div(one, hn::Add(one, exp_approx(hn::Neg(floored))));
}

/// Loads min(n, lanes) floats, zeros in the other lanes. Units: n >= 1.
HWY_INLINE V load_n(const float* p, std::int64_t n) {
  const F d;
  if (n >= static_cast<std::int64_t>(hn::Lanes(d))) return hn::LoadU(d, p);
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(n)), d, p);
}

/// Stores the first min(n, lanes) lanes.
HWY_INLINE void store_n(V v, float* p, std::int64_t n) {
  const F d;
  if (n >= static_cast<std::int64_t>(hn::Lanes(d))) {
    hn::StoreU(v, d, p);
  } else {
    hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(n)), d, p);
  }
}

HWY_INLINE float sum_lanes(V v) {
  const F d;
  return hn::GetLane(hn::SumOfLanes(d, v));
}

HWY_INLINE float dot(const float* a, const float* b, std::int64_t n) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(F()));
  V sum = hn::Zero(F());
  for (std::int64_t c = 0; c < n; c += lanes) {
    sum = hn::MulAdd(load_n(a + c, n - c), load_n(b + c, n - c), sum);
  }
  return sum_lanes(sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
