#include "base/threads.h"
#include "ops/activation_ref.h"
#include "ops/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/activation_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

/// 2u of the reference: with it tanh(u) = 2 sigmoid(2u) - 1, so f = x s and
/// f' = s + x s (1 - s) (2u)', where s = sigmoid(2u).
HWY_INLINE V gelu_argument(V x, V square) {
  const F d;
  const V linear = hn::Set(d, static_cast<float>(2 * kSqrt2OverPi));
  const V cubic = hn::Set(d, static_cast<float>(2 * kSqrt2OverPi * kGeluCubic));
  return hn::Mul(x, hn::MulAdd(cubic, square, linear));
}

template <Activation kKind>
HWY_INLINE V value(V x) {
  const F d;
  if constexpr (kKind == Activation::kGeluTanh) {
    return hn::Mul(x, sigmoid(gelu_argument(x, hn::Mul(x, x))));
  }
  if constexpr (kKind == Activation::kSwiGlu) return hn::Mul(x, sigmoid(x));
  const V positive = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  return kKind == Activation::kRelu ? positive : hn::Mul(positive, positive);
}

template <Activation kKind>
HWY_INLINE V slope(V x) {
  const F d;
  if constexpr (kKind == Activation::kGeluTanh) {
    const V square = hn::Mul(x, x);
    const V s = sigmoid(gelu_argument(x, square));
    const V linear = hn::Set(d, static_cast<float>(2 * kSqrt2OverPi));
    const V cubic = hn::Set(d, static_cast<float>(6 * kSqrt2OverPi * kGeluCubic));
    const V inner = hn::MulAdd(cubic, square, linear);
    return hn::MulAdd(hn::Mul(x, inner), hn::NegMulAdd(s, s, s), s);
  }
  if constexpr (kKind == Activation::kSwiGlu) {
    const V s = sigmoid(x);
    return hn::MulAdd(x, hn::NegMulAdd(s, s, s), s);
  }
  if constexpr (kKind == Activation::kRelu) {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0F));
  }
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), hn::Add(x, x));
}

template <Activation kKind>
void forward_rows(const ActivationForward<float>& a, std::int64_t begin, std::int64_t end) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t r = begin; r < end; ++r) {
    const float* x = a.x.row(r);
    float* y = a.y.row(r);
    for (std::int64_t c = 0; c < a.y.cols; c += lanes) {
      const std::int64_t n = a.y.cols - c;
      V active = value<kKind>(load_n(x + c, n));
      if constexpr (kKind == Activation::kSwiGlu) {
        active = hn::Mul(active, load_n(x + a.y.cols + c, n));
      }
      store_n(active, y + c, n);
    }
  }
}

template <Activation kKind>
void backward_rows(const ActivationBackward<float>& a, std::int64_t begin, std::int64_t end) {
  const F d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t r = begin; r < end; ++r) {
    const float *x = a.x.row(r), *dy = a.dy.row(r);
    float* dx = a.dx.row(r);
    for (std::int64_t c = 0; c < a.dy.cols; c += lanes) {
      const std::int64_t n = a.dy.cols - c;
      const V gate = load_n(x + c, n);
      V gradient = load_n(dy + c, n);
      if constexpr (kKind == Activation::kSwiGlu) {
        const V up = load_n(x + a.dy.cols + c, n);
        store_n(hn::Mul(value<kKind>(gate), gradient), dx + a.dy.cols + c, n);
        gradient = hn::Mul(up, gradient);
      }
      store_n(hn::Mul(slope<kKind>(gate), gradient), dx + c, n);
    }
  }
}

void activation_forward_rows(const ActivationForward<float>& a, std::int64_t begin,
                             std::int64_t end) {
  switch (a.kind) {
    case Activation::kGeluTanh:
      return forward_rows<Activation::kGeluTanh>(a, begin, end);
    case Activation::kRelu:
      return forward_rows<Activation::kRelu>(a, begin, end);
    case Activation::kRelu2:
      return forward_rows<Activation::kRelu2>(a, begin, end);
    case Activation::kSwiGlu:
      return forward_rows<Activation::kSwiGlu>(a, begin, end);
  }
}

void activation_backward_rows(const ActivationBackward<float>& a, std::int64_t begin,
                              std::int64_t end) {
  switch (a.kind) {
    case Activation::kGeluTanh:
      return backward_rows<Activation::kGeluTanh>(a, begin, end);
    case Activation::kRelu:
      return backward_rows<Activation::kRelu>(a, begin, end);
    case Activation::kRelu2:
      return backward_rows<Activation::kRelu2>(a, begin, end);
    case Activation::kSwiGlu:
      return backward_rows<Activation::kSwiGlu>(a, begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(activation_forward_rows);
HWY_EXPORT(activation_backward_rows);

void activation_forward_cpu(const ActivationForward<float>& a) {
  parallel_slices(a.x.rows, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(activation_forward_rows)(a, begin, end);
  });
}

void activation_backward_cpu(const ActivationBackward<float>& a) {
  parallel_slices(a.x.rows, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(activation_backward_rows)(a, begin, end);
  });
}

}  // namespace headloom
#endif
