#include "ops/emulated.h"

#include <cmath>

#include "ops/attend_cuda.h"
#include "ops/attend_probe_ref.h"
#include "ops/cuda_kernels.h"
#include "ops/gemm_ref.h"

namespace headloom {
namespace {

static_assert(static_cast<int>(cuda::Act::kSwiGlu) == static_cast<int>(Activation::kSwiGlu));

template <class T>
cuda::HeadsPointer<T> pointer_of(const Heads<T>& x) {
  return {x.data, x.batch_stride, x.seq_stride, x.head_stride};
}

cuda::AttendSizes sizes_of(const Heads<const float>& q, const Heads<const float>& k) {
  return {.batch = static_cast<int>(q.batch),
          .seq = static_cast<int>(k.seq),
          .heads = static_cast<int>(q.heads),
          .kv_heads = static_cast<int>(k.heads),
          .queries = static_cast<int>(q.seq)};
}

float scale_of(const Heads<const float>& q) {
  return 1 / std::sqrt(static_cast<float>(q.head_dim));
}

void attend_forward(const AttendForward<float>& a) {
  cuda::attend_simple_forward({.sizes = sizes_of(a.q, a.k),
                               .scale = scale_of(a.q),
                               .q = pointer_of(a.q),
                               .k = pointer_of(a.k),
                               .v = pointer_of(a.v),
                               .out = pointer_of(a.out),
                               .lse = a.lse,
                               .gate = a.gate},
                              static_cast<int>(a.q.head_dim));
}

void attend_backward(const AttendBackward<float>& a) {
  cuda::attend_simple_backward({.sizes = sizes_of(a.q, a.k),
                                .scale = scale_of(a.q),
                                .q = pointer_of(a.q),
                                .k = pointer_of(a.k),
                                .v = pointer_of(a.v),
                                .out = pointer_of(a.out),
                                .dout = pointer_of(a.dout),
                                .lse = a.lse,
                                .dq = pointer_of(a.dq),
                                .dk = pointer_of(a.dk),
                                .dv = pointer_of(a.dv),
                                .gate = a.gate,
                                .dgate = a.dgate},
                               static_cast<int>(a.q.head_dim));
}

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
                       .dbias = n.dbias});
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
  cuda::column_sum(s.x, s.sum);
}
void sum_squares(const SumSquares<float>& s) {
  double parts[cuda::kSquareParts];
  cuda::sum_squares(s.x, s.count, parts, s.result);
}
void zero(const Zero<float>& z) {
  if (z.count > 0) cuda::zero(z.x, z.count);
}
void rope(const Rope<float>& r) {
  cuda::rope(r.x, r.first_position, r.base, r.inverse);
}

}  // namespace

const Ops<float>& emulated_ops() {
  static const Ops<float> ops{
      .name = "emulated",
      .gemm = {gemm_ref<float>},
      .rope = {rope},
      .attend_forward = {attend_forward},
      .attend_backward = {attend_backward},
      .attend_probe = {attend_probe_ref<float>},
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
  };
  return ops;
}

}  // namespace headloom
