#include "base/threads.h"
#include "ops/cpu.h"
#include "ops/rope_ref.h"
#include "ops/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope_cpu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headloom {
namespace HWY_NAMESPACE {

void rotate_head(const float* cosine, const float* sine, std::int64_t half, float* x) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(F()));
  for (std::int64_t i = 0; i < half; i += lanes) {
    const std::int64_t n = half - i;
    const V c = load_n(cosine + i, n), s = load_n(sine + i, n);
    const V u = load_n(x + i, n), v = load_n(x + half + i, n);
    store_n(hn::NegMulAdd(v, s, hn::Mul(u, c)), x + i, n);
    store_n(hn::MulAdd(u, s, hn::Mul(v, c)), x + half + i, n);
  }
}

/// Positions [begin, end) of all sequences and heads: they share their angles.
void rope_positions(const Rope<float>& r, std::int64_t begin, std::int64_t end) {
  const std::int64_t half = r.x.head_dim / 2;
  float* cosine = thread_scratch(4 * half);
  float* sine = cosine + half;
  auto* frequency = reinterpret_cast<double*>(cosine + 2 * half);
  for (std::int64_t i = 0; i < half; ++i) frequency[i] = rope_frequency(i, r.x.head_dim, r.base);
  for (std::int64_t t = begin; t < end; ++t) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(r.first_position + t) * frequency[i];
      cosine[i] = static_cast<float>(std::cos(angle));
      sine[i] = static_cast<float>(r.inverse ? -std::sin(angle) : std::sin(angle));
    }
    for (std::int64_t b = 0; b < r.x.batch; ++b) {
      for (std::int64_t h = 0; h < r.x.heads; ++h) {
        rotate_head(cosine, sine, half, r.x.at(b, t, h));
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headloom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headloom {
HWY_EXPORT(rope_positions);

void rope_cpu(const Rope<float>& r) {
  parallel_slices(r.x.seq, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(rope_positions)(r, begin, end);
  });
}

}  // namespace headloom
#endif
