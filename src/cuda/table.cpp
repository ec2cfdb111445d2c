// The table of CUDA ops: arguments as the model gives them, turned into those of kernels.
#include <cmath>
#include <string>

#include "cuda/platform.h"
#include "ops/attend_cuda.h"
#include "ops/cuda_kernels.h"

namespace headloom {
namespace {

static_assert(static_cast<int>(cuda::Act::kSwiGlu) == static_cast<int>(Activation::kSwiGlu));

const cuda::Platform* current_platform = nullptr;

void norm_forward(const NormForward<float>& n) {
  cuda::norm_forward({.centred = n.kind == NormKind::kLayerNorm,
                      .eps = static_cast<float>(n.eps),
                      .x = n.x,
                      .add = n.add,
                      .sum = n.sum,
                      .y = n.y,
                      .gain = n.gain,
                      .bias = n.bias,
                      .mean = n.mean,
                      .rstd = n.rstd});
}

void norm_backward(const NormBackward<float>& n) {
  cuda::norm_backward({.centred = n.kind == NormKind::kLayerNorm,
                       .x = n.x,
                       .dy = n.dy,
                       .dresidual = n.dresidual,
                       .gain = n.gain,
                       .mean = n.mean,
                       .rstd = n.rstd,
                       .dx = n.dx,
                       .dgain = n.dgain,
                       .dbias = n.dbias},
                      cuda::scratch<float>(cuda::Slot::kParts, 2 * cuda::kColumnParts * n.x.cols));
}

cuda::Act act_of(Activation kind) {
  return static_cast<cuda::Act>(kind);
}
void activation_forward(const ActivationForward<float>& a) {
  cuda::activation_forward(act_of(a.kind), a.x, a.y);
}
void activation_backward(const ActivationBackward<float>& a) {
  cuda::activation_backward(act_of(a.kind), a.x, a.dy, a.dx);
}

void embed_forward(const EmbedForward<float>& e) {
  cuda::embed_forward({e.ids, e.seq, e.first_position, e.token_table, e.position_table, e.y});
}
void embed_backward(const EmbedBackward<float>& e) {
  cuda::embed_backward({e.ids, e.seq, e.dy, e.dtoken_table, e.dposition_table});
}

void cross_entropy(const CrossEntropy<float>& c) {
  cuda::cross_entropy({.logits = c.logits,
                       .vocab = c.vocab,
                       .targets = c.targets,
                       .losses = c.losses,
                       .write_gradient = c.write_gradient,
                       .scale = static_cast<float>(c.gradient_scale)});
}

void adamw(const AdamW<float>& a) {
  const double step = static_cast<double>(a.step);
  cuda::adamw({.parameter = a.parameter,
               .gradient = a.gradient,
               .m = a.m,
               .v = a.v,
               .count = a.count,
               .learning_rate = static_cast<float>(a.learning_rate),
               .beta1 = static_cast<float>(a.beta1),
               .beta2 = static_cast<float>(a.beta2),
               .eps = static_cast<float>(a.eps),
               .decay = static_cast<float>(a.weight_decay),
               .scale = static_cast<float>(a.gradient_scale),
               .rest1 = static_cast<float>(1 - a.beta1),
               .rest2 = static_cast<float>(1 - a.beta2),
               .correct1 = static_cast<float>(1 - std::pow(a.beta1, step)),
               .correct2 = static_cast<float>(1 - std::pow(a.beta2, step))});
}

void column_sum(const ColumnSum<float>& s) {
  cuda::column_sum(s.x, s.sum,
                   cuda::scratch<float>(cuda::Slot::kParts, cuda::kColumnParts * s.x.cols));
}
void sum_squares(const SumSquares<float>& s) {
  auto* parts = cuda::scratch<double>(cuda::Slot::kParts, cuda::kSquareParts + 1);
  cuda::sum_squares(s.x, s.count, parts, parts + cuda::kSquareParts);
  cuda::platform().device->download(s.result, parts + cuda::kSquareParts, sizeof(double));
}
void zero(const Zero<float>& z) {
  if (z.count > 0) cuda::zero(z.x, z.count);
}
void rope(const Rope<float>& r) {
  cuda::rope(r.x, r.first_position, r.base, r.inverse);
}
void copy_heads(const CopyHeads<float>& c) {
  cuda::copy_heads(c.from, c.to);
}

/// What attention runs a head_dim as.
std::string head_dim_words(std::int64_t head_dim, Precision precision) {
  if (precision != Precision::kBf16) {
    return fmt::format("head_dim {}: attention in fp32, row by row; --precision bf16 has tiles",
                       head_dim);
  }
  const std::int64_t dim = cuda::tile_head_dim(head_dim);
  if (dim == 0) {
    return fmt::format("head_dim {} is wider than the tiles' 128: attention in fp32, row by row",
                       head_dim);
  }
  if (dim == head_dim) return fmt::format("head_dim {}: tiles on tensor cores", head_dim);
  return fmt::format("head_dim {}: tiles of {}, {:.0f}% of their work for nothing; {} would not",
                     head_dim, dim,
                     100.0 * static_cast<double>(dim - head_dim) / static_cast<double>(dim), dim);
}

template <Precision kPrecision>
const Ops<float>& table() {
  static const std::string name =
      fmt::format("{}, {}", current_platform->name, enum_name(kPrecision));
  static const Ops<float> ops{
      .name = name.c_str(),
      .device = current_platform->device,
      .precision = kPrecision,
      .head_dim_note = [](std::int64_t dim) { return head_dim_words(dim, kPrecision); },
      .scratch_bytes = [](const ScratchSizes& s) { return cuda::planned_scratch(s, kPrecision); },
      .reserve = [](const ScratchSizes& s) { cuda::reserve_scratch(s, kPrecision); },
      .multiply_again = [](std::int64_t n,
                           int times) { cuda::multiply_again(n, times, kPrecision); },
      .gemm = {[](const Gemm<float>& g) { cuda::gemm(g, kPrecision); }},
      .rope = {rope},
      .attend_forward = {[](const AttendForward<float>& a) {
        cuda::attend_forward(a, kPrecision);
      }},
      .attend_backward = {[](const AttendBackward<float>& a) {
        cuda::attend_backward(a, kPrecision);
      }},
      .attend_probe = {cuda::attend_probe},
      .norm_forward = {norm_forward},
      .norm_backward = {norm_backward},
      .activation_forward = {activation_forward},
      .activation_backward = {activation_backward},
      .embed_forward = {embed_forward},
      .embed_backward = {embed_backward},
      .cross_entropy = {cross_entropy},
      .adamw = {adamw},
      .column_sum = {column_sum},
      .sum_squares = {sum_squares},
      .zero = {zero},
      .copy_heads = {copy_heads},
      .attend_forward_simple = {cuda::attend_forward_simply},
      .attend_backward_simple = {cuda::attend_backward_simply}};
  return ops;
}

}  // namespace

namespace cuda {

const Platform& platform() {
  return *current_platform;
}

const Ops<float>& ops_on(const Platform& platform, Precision precision) {
  current_platform = &platform;
  switch (precision) {
    case Precision::kFp32:
      return table<Precision::kFp32>();
    case Precision::kTf32:
      return table<Precision::kTf32>();
    case Precision::kBf16:
      return table<Precision::kBf16>();
  }
  fail("no such precision");
}

}  // namespace cuda
}  // namespace headloom
