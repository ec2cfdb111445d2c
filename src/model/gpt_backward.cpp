#include <bit>
#include <complex>

#include "model/gpt.h"

/// The way back through gpt.cpp, from the logits to the token table.
namespace headloom {

template <class T>
void Gpt<T>::linear_backward(const LinearWeights<T>& weights, const LinearWeights<T>& gradients,
                             Matrix<T> x, Matrix<T> dy, Matrix<T> dx) {
  ops_.gemm({.a = dy, .b = weights.weight, .transpose_b = true, .c = dx});
  ops_.gemm({.a = x, .transpose_a = true, .b = dy, .c = gradients.weight, .accumulate = true});
  if (gradients.bias != nullptr) ops_.column_sum({dy, gradients.bias});
}

/// Turns dnorm into the gradient of the norm's input and adds it to the residual stream's; the
/// first norm on the way back starts the stream.
template <class T>
void Gpt<T>::norm_backward(const NormWeights<T>& weights, const NormWeights<T>& gradients,
                           Matrix<T> x, const T* mean, const T* rstd, bool first) {
  const Matrix<T> dstream = work_.dstream.row_range(0, x.rows);
  ops_.norm_backward({.kind = config_.norm,
                      .x = x,
                      .gain = weights.gain,
                      .mean = mean,
                      .rstd = rstd,
                      .dy = work_.dnorm.row_range(0, x.rows),
                      .dresidual = first ? Matrix<const T>() : dstream,
                      .dx = dstream,
                      .dgain = gradients.gain,
                      .dbias = gradients.bias});
}

template <class T>
void Gpt<T>::block_backward(std::int64_t layer, std::int64_t batch, std::int64_t rows,
                            const BlockWeights<T>& gradients) {
  const BlockWeights<T>& weights = weights_.blocks[static_cast<std::size_t>(layer)];
  const BlockActivations<T> acts = block_rows(layer, rows);
  const HeadLayout heads = config_.head_layout(layer);
  const Matrix<T> dstream = work_.dstream.row_range(0, rows);
  const Matrix<T> dnorm = work_.dnorm.row_range(0, rows);
  const Matrix<T> dhidden = work_.dhidden.row_range(0, rows);

  // The gradient of the activation's output stands where that of its (last) input will.
  const Matrix<T> dactive = dhidden.col_range(dhidden.cols - acts.active.cols, acts.active.cols);
  linear_backward(weights.mlp_out, gradients.mlp_out, acts.active, dstream, dactive);
  ops_.activation_backward({config_.activation, acts.hidden, dactive, dhidden});
  linear_backward(weights.mlp_in, gradients.mlp_in, acts.norm2, dhidden, dnorm);
  norm_backward(weights.norm2, gradients.norm2, acts.mid, acts.mean2, acts.rstd2, false);

  attention_backward(ops_, {.layout = heads,
                            .rope_base = config_.attention_rope_base(),
                            .batch = batch,
                            .x = acts.norm1,
                            .weights = {weights.attention.qkv, weights.attention.qkv_bias,
                                        weights.attention.out, weights.attention.out_bias},
                            .qkv = acts.qkv,
                            .heads = acts.heads,
                            .lse = acts.lse,
                            .dy = dstream,
                            .dheads = {work_.dheads.data, rows, heads.query_width()},
                            .dqkv = {work_.dqkv.data, rows, heads.fused_width()},
                            .dx = dnorm,
                            .dweights = gradients.attention,
                            .tap = taps_ != nullptr ? taps_ + layer : nullptr});
  norm_backward(weights.norm1, gradients.norm1, acts.x, acts.mean1, acts.rstd1, false);
}

template <class T>
void Gpt<T>::head_losses(std::int64_t rows, bool backward, double scale,
                         const ModelWeights<T>& gradients) {
  const std::int64_t chunk = work_.logits.rows;
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t count = std::min(chunk, rows - begin);
    const Matrix<T> logits = work_.logits.row_range(0, count);
    const Matrix<T> hidden = work_.final_norm.row_range(begin, count);
    this->logits(hidden, logits);
    ops_.cross_entropy({.logits = logits,
                        .vocab = config_.vocab_size,
                        .targets = work_.targets + begin,
                        .losses = work_.losses + begin,
                        .write_gradient = backward,
                        .gradient_scale = scale});
    if (!backward) continue;
    ops_.gemm({.a = logits, .b = weights_.head, .c = work_.dnorm.row_range(begin, count)});
    ops_.gemm(
        {.a = logits, .transpose_a = true, .b = hidden, .c = gradients.head, .accumulate = true});
  }
}

template <class T>
void Gpt<T>::backward(std::int64_t batch, std::int64_t seq, const ModelWeights<T>& gradients) {
  const std::int64_t rows = batch * seq;
  norm_backward(weights_.final_norm, gradients.final_norm, work_.last.row_range(0, rows),
                work_.mean_final, work_.rstd_final, true);
  for (std::int64_t layer = config_.n_layers - 1; layer >= 0; --layer) {
    block_backward(layer, batch, rows, gradients.blocks[static_cast<std::size_t>(layer)]);
  }
  ops_.embed_backward({.ids = work_.inputs,
                       .seq = seq,
                       .dy = work_.dstream.row_range(0, rows),
                       .dtoken_table = gradients.token_table,
                       .dposition_table = gradients.position_table});
}

template <class T>
Sum<T> Gpt<T>::accumulate_gradients(const TokenBatch& batch, double gradient_scale, T* gradients) {
  if (use_ != Use::kTraining) fail("this model was made for inference and keeps no gradients");
  if (gradients != gradient_base_) {
    gradient_views_ = layout_.views(gradients);
    gradient_base_ = gradients;
  }
  check_batch(batch.batch, batch.seq);
  load_inputs(batch.inputs, batch.rows());
  load_targets(batch.targets, batch.rows());
  const auto work = [&] {
    std::vector<KvCache<T>> no_cache;
    forward(batch.batch, batch.seq, 0, no_cache);
    head_losses(batch.rows(), true, gradient_scale, gradient_views_);
    backward(batch.batch, batch.seq, gradient_views_);
  };
  if (taps_ != nullptr || ops_.device->record == nullptr) {
    work();  // Taps look and change on the CPU, which a recording would not.
  } else {
    step_.run(*ops_.device,
              {batch.batch, batch.seq, std::bit_cast<std::int64_t>(gradient_scale),
               reinterpret_cast<std::int64_t>(gradients)},
              work);
  }
  return total_loss(batch.rows());
}

#define HEADLOOM_INSTANTIATE(T)                                                                \
  template void Gpt<T>::linear_backward(const LinearWeights<T>&, const LinearWeights<T>&,      \
                                        Matrix<T>, Matrix<T>, Matrix<T>);                      \
  template void Gpt<T>::norm_backward(const NormWeights<T>&, const NormWeights<T>&, Matrix<T>, \
                                      const T*, const T*, bool);                               \
  template void Gpt<T>::block_backward(std::int64_t, std::int64_t, std::int64_t,               \
                                       const BlockWeights<T>&);                                \
  template void Gpt<T>::head_losses(std::int64_t, bool, double, const ModelWeights<T>&);       \
  template void Gpt<T>::backward(std::int64_t, std::int64_t, const ModelWeights<T>&);          \
  template Sum<T> Gpt<T>::accumulate_gradients(const TokenBatch&, double, T*);
HEADLOOM_INSTANTIATE(float)
HEADLOOM_INSTANTIATE(double)
HEADLOOM_INSTANTIATE(std::complex<double>)
#undef HEADLOOM_INSTANTIATE

}  // namespace headloom
