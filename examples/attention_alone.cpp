// Attention without a framework: forward and backward on fused activations [q | k | v], and a check
// of one gradient against a finite difference.
#include <headloom/attention.h>
#include <headloom/error.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr std::int64_t kBatch = 2, kSeq = 100, kHeads = 4, kHeadDim = 72;
constexpr std::int64_t kWidth = kHeads * kHeadDim, kFused = 3 * kWidth;

/// Sum of weights * attention, and what forward leaves behind.
double weighted_sum(const std::vector<float>& qkv, const std::vector<float>& weights,
                    std::vector<float>& out, std::vector<float>& lse) {
  headloom::AttentionShape shape{
      .batch = kBatch, .seq = kSeq, .heads = kHeads, .head_dim = kHeadDim};
  shape.q_stride = shape.kv_stride = kFused;
  const float* q = qkv.data();
  headloom::causal_attention_forward(shape, q, q + kWidth, q + 2 * kWidth, out.data(), lse.data());
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) sum += double(out[i]) * weights[i];
  return sum;
}

}  // namespace

int main() {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> qkv(kBatch * kSeq * kFused), weights(kBatch * kSeq * kWidth);
  for (float& x : qkv) x = normal(engine);
  for (float& x : weights) x = normal(engine);
  std::vector<float> out(weights.size()), lse(kBatch * kHeads * kSeq), gradient(qkv.size());
  try {
    weighted_sum(qkv, weights, out, lse);
    headloom::AttentionShape shape{
        .batch = kBatch, .seq = kSeq, .heads = kHeads, .head_dim = kHeadDim};
    shape.q_stride = shape.kv_stride = kFused;
    const float* q = qkv.data();
    float* dq = gradient.data();
    headloom::causal_attention_backward(shape, q, q + kWidth, q + 2 * kWidth, out.data(),
                                        weights.data(), lse.data(), dq, dq + kWidth,
                                        dq + 2 * kWidth);
  } catch (const headloom::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  const std::size_t place = 7 * kFused + kWidth + 5;  // a key of the eighth position
  const float step = 1e-2F;
  std::vector<float> up = qkv, down = qkv;
  up[place] += step;
  down[place] -= step;
  const double slope =
      (weighted_sum(up, weights, out, lse) - weighted_sum(down, weights, out, lse)) / (2 * step);
  std::printf("gradient %.5f, finite difference %.5f\n", gradient[place], slope);
  return std::abs(gradient[place] - slope) < 1e-2 ? 0 : 1;
}
