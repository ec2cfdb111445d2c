#include "model/gpt.h"

#include <algorithm>
#include <complex>

namespace headloom {
std::int64_t TokenBatch::counted() const {
  return rows() - std::count(targets, targets + rows(), kIgnoredTarget);
}

template <class T>
Gpt<T>::Gpt(const ModelConfig& config, const Ops<T>& ops, T* parameters, std::int64_t max_batch,
            std::int64_t max_seq, Use use)
    : config_(config),
      layout_(config),
      ops_(ops),
      weights_(layout_.views(parameters)),
      max_batch_(max_batch),
      max_seq_(max_seq),
      use_(use),
      arena_(arrange(
          [this](Arena& arena) {
            work_ = arrange_workspace<T>(arena, config_, max_batch_, max_seq_, use_);
          },
          *ops.device)) {}

template <class T>
void Gpt<T>::load_inputs(const std::int32_t* ids, std::int64_t count) {
  check_ids("embed_forward", ids, count, weights_.token_table.rows);
  ops_.device->upload(work_.inputs, ids, static_cast<std::size_t>(count) * sizeof(*ids));
}

template <class T>
void Gpt<T>::load_targets(const std::int32_t* targets, std::int64_t count) {
  check_targets(targets, count, config_.vocab_size);
  ops_.device->upload(work_.targets, targets, static_cast<std::size_t>(count) * sizeof(*targets));
}

template <class T>
BlockActivations<T> Gpt<T>::block_rows(std::int64_t layer, std::int64_t rows) const {
  BlockActivations<T> acts = work_.blocks[static_cast<std::size_t>(layer)];
  for (Matrix<T>* matrix : {&acts.x, &acts.norm1, &acts.qkv, &acts.heads, &acts.mid, &acts.norm2,
                            &acts.hidden, &acts.active}) {
    matrix->rows = rows;
  }
  return acts;
}

template <class T>
void Gpt<T>::check_batch(std::int64_t batch, std::int64_t seq) const {
  if (seq > max_seq_ || batch > max_batch_ || batch < 1 || seq < 1) {
    fail("the model was made for up to {} sequences of {} tokens, not for {} of {}", max_batch_,
         max_seq_, batch, seq);
  }
}

template <class T>
NormForward<T> Gpt<T>::norm_args(const NormWeights<T>& weights) const {
  NormForward<T> args;
  args.kind = config_.norm;
  args.eps = config_.norm_eps;
  args.gain = weights.gain;
  args.bias = weights.bias;
  return args;
}

template <class T>
void Gpt<T>::mlp_forward(const BlockWeights<T>& weights, const BlockActivations<T>& acts) {
  ops_.gemm(
      {.a = acts.norm2, .b = weights.mlp_in.weight, .c = acts.hidden, .bias = weights.mlp_in.bias});
  ops_.activation_forward({config_.activation, acts.hidden, acts.active});
  ops_.gemm({.a = acts.active,
             .b = weights.mlp_out.weight,
             .c = work_.branch.row_range(0, acts.x.rows),
             .bias = weights.mlp_out.bias});
}

template <class T>
void Gpt<T>::block_forward(std::int64_t layer, std::int64_t batch, std::int64_t rows,
                           const KvCache<T>& cache) {
  const BlockWeights<T>& weights = weights_.blocks[static_cast<std::size_t>(layer)];
  const BlockActivations<T> acts = block_rows(layer, rows);
  const Matrix<T> branch = work_.branch.row_range(0, rows);

  // The first norm also adds what the block before left in `branch`; the second, the attention.
  NormForward<T> norm1 = norm_args(weights.norm1);
  norm1.x = layer == 0 ? acts.x : block_rows(layer - 1, rows).mid;
  if (layer > 0) norm1.add = branch;
  norm1.sum = acts.x;
  norm1.y = acts.norm1;
  norm1.mean = acts.mean1;
  norm1.rstd = acts.rstd1;
  ops_.norm_forward(norm1);

  attention_forward(ops_, {.layout = config_.head_layout(layer),
                           .rope_base = config_.attention_rope_base(),
                           .batch = batch,
                           .x = acts.norm1,
                           .weights = {weights.attention.qkv, weights.attention.qkv_bias,
                                       weights.attention.out, weights.attention.out_bias},
                           .qkv = acts.qkv,
                           .heads = acts.heads,
                           .lse = acts.lse,
                           .y = branch,
                           .cache = cache,
                           .tap = taps_ != nullptr ? taps_ + layer : nullptr});

  NormForward<T> norm2 = norm_args(weights.norm2);
  norm2.x = acts.x;
  norm2.add = branch;
  norm2.sum = acts.mid;
  norm2.y = acts.norm2;
  norm2.mean = acts.mean2;
  norm2.rstd = acts.rstd2;
  ops_.norm_forward(norm2);
  mlp_forward(weights, acts);
}

template <class T>
Matrix<const T> Gpt<T>::hidden_states(const std::int32_t* ids, std::int64_t batch, std::int64_t seq,
                                      std::int64_t first_position,
                                      std::vector<KvCache<T>>& caches) {
  check_batch(batch, seq);
  load_inputs(ids, batch * seq);
  return forward(batch, seq, first_position, caches);
}

template <class T>
Matrix<const T> Gpt<T>::forward(std::int64_t batch, std::int64_t seq, std::int64_t first_position,
                                std::vector<KvCache<T>>& caches) {
  const std::int64_t rows = batch * seq;
  ops_.embed_forward({.ids = work_.inputs,
                      .seq = seq,
                      .first_position = first_position,
                      .token_table = weights_.token_table,
                      .position_table = weights_.position_table,
                      .y = work_.blocks[0].x.row_range(0, rows)});
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    const bool cached = !caches.empty();
    block_forward(layer, batch, rows,
                  cached ? caches[static_cast<std::size_t>(layer)] : KvCache<T>{});
    if (cached) caches[static_cast<std::size_t>(layer)].length += seq;
  }
  NormForward<T> norm = norm_args(weights_.final_norm);
  norm.x = block_rows(config_.n_layers - 1, rows).mid;
  norm.add = work_.branch.row_range(0, rows);
  norm.sum = work_.last.row_range(0, rows);
  norm.y = work_.final_norm.row_range(0, rows);
  norm.mean = work_.mean_final;
  norm.rstd = work_.rstd_final;
  ops_.norm_forward(norm);
  return norm.y;
}

template <class T>
void Gpt<T>::logits(Matrix<const T> hidden, Matrix<T> logits) const {
  ops_.gemm({.a = hidden, .b = weights_.head, .transpose_b = true, .c = logits});
}

template <class T>
Sum<T> Gpt<T>::loss(const TokenBatch& batch) {
  std::vector<KvCache<T>> no_cache;
  hidden_states(batch.inputs, batch.batch, batch.seq, 0, no_cache);
  load_targets(batch.targets, batch.rows());
  head_losses(batch.rows(), false, 0.0, {});
  return total_loss(batch.rows());
}

template <class T>
Sum<T> Gpt<T>::total_loss(std::int64_t rows) {
  const HostNumbers<T> losses(*ops_.device, work_.losses, rows);
  Sum<T> total = 0;
  for (std::int64_t r = 0; r < rows; ++r) total += Sum<T>(losses.data()[r]);
  return total;
}

template class Gpt<float>;
template class Gpt<double>;
template class Gpt<std::complex<double>>;

}  // namespace headloom
