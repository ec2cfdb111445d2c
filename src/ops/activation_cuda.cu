// Activations: a thread to an element.
#include "ops/cuda_block.cuh"
#include "ops/cuda_kernels.h"

namespace headloom::cuda {
namespace {

using namespace simt;

constexpr float kSqrt2OverPi = 0.7978845608028654F;
constexpr float kCubic = 0.044715F;

struct Forward {
  Act kind;
  Matrix<const float> x;
  Matrix<float> y;
};
struct Backward {
  Act kind;
  Matrix<const float> x, dy;
  Matrix<float> dx;
};

SIMT_FN float value_of(Act kind, float x) {
  if (kind == Act::kSwiGlu) return x / (1.0F + expf(-x));
  if (kind == Act::kGeluTanh) {
    return 0.5F * x * (1.0F + tanhf(kSqrt2OverPi * (x + kCubic * x * x * x)));
  }
  const float positive = x < 0.0F ? 0.0F : x;
  return kind == Act::kRelu ? positive : positive * positive;
}

SIMT_FN float slope_of(Act kind, float x) {
  if (kind == Act::kSwiGlu) {
    const float s = 1.0F / (1.0F + expf(-x));
    return s + x * s * (1.0F - s);
  }
  if (kind == Act::kGeluTanh) {
    const float t = tanhf(kSqrt2OverPi * (x + kCubic * x * x * x));
    return 0.5F * (1.0F + t) +
           0.5F * x * (1.0F - t * t) * kSqrt2OverPi * (1.0F + 3.0F * kCubic * x * x);
  }
  if (kind == Act::kRelu) return x > 0.0F ? 1.0F : 0.0F;
  return x < 0.0F ? 0.0F : 2.0F * x;
}

SIMT_KERNEL(kBlockThreads, 1)
void forward(Forward a) {
  const std::int64_t cols = a.y.cols, count = a.y.rows * cols;
  for (std::int64_t i = first_item(); i < count; i += item_stride()) {
    const std::int64_t r = i / cols, c = i % cols;
    const float* x = a.x.data + r * a.x.stride;
    const float y = value_of(a.kind, x[c]);
    a.y.data[r * a.y.stride + c] = a.kind == Act::kSwiGlu ? y * x[cols + c] : y;
  }
}

SIMT_KERNEL(kBlockThreads, 1)
void backward(Backward a) {
  const std::int64_t cols = a.dy.cols, count = a.dy.rows * cols;
  for (std::int64_t i = first_item(); i < count; i += item_stride()) {
    const std::int64_t r = i / cols, c = i % cols;
    const float* x = a.x.data + r * a.x.stride;
    float* dx = a.dx.data + r * a.dx.stride;
    const float dy = a.dy.data[r * a.dy.stride + c];  // may lie where dx's last columns do
    if (a.kind == Act::kSwiGlu) {
      dx[c] = slope_of(a.kind, x[c]) * x[cols + c] * dy;
      dx[cols + c] = value_of(a.kind, x[c]) * dy;
    } else {
      dx[c] = slope_of(a.kind, x[c]) * dy;
    }
  }
}

}  // namespace

void activation_forward(Act kind, Matrix<const float> x, Matrix<float> y) {
  launch("activation_forward", forward, threads_for(y.rows * y.cols), Forward{kind, x, y});
}

void activation_backward(Act kind, Matrix<const float> x, Matrix<const float> dy,
                         Matrix<float> dx) {
  launch("activation_backward", backward, threads_for(dy.rows * dy.cols),
         Backward{kind, x, dy, dx});
}

}  // namespace headloom::cuda
