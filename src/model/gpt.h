#pragma once

#include "model/parameters.h"
#include "model/workspace.h"
#include "ops/backend.h"
#include "ops/number.h"

namespace headloom {

/// B sequences of T tokens, in the host's memory. Shapes: inputs, targets int32 [B*T] by sequence;
/// a target of kIgnoredTarget counts for nothing.
struct TokenBatch {
  const std::int32_t* inputs = nullptr;
  const std::int32_t* targets = nullptr;
  std::int64_t batch = 0;
  std::int64_t seq = 0;

  std::int64_t rows() const { return batch * seq; }
  /// Targets that count.
  std::int64_t counted() const;
};

/// A GPT over parameters that someone else owns, in the memory of ops.device: the one model code
/// path for every architecture and device.
template <class T>
class Gpt {
 public:
  /// Allocates the workspace for up to `max_batch` sequences of up to `max_seq` tokens. For
  /// inference all blocks share one set of activations, and there are no gradients.
  Gpt(const ModelConfig& config, const Ops<T>& ops, T* parameters, std::int64_t max_batch,
      std::int64_t max_seq, Use use);

  const ModelConfig& config() const { return config_; }
  const ParameterLayout& layout() const { return layout_; }
  /// In the memory of ops().device.
  const Workspace<T>& workspace() const { return work_; }
  const Ops<T>& ops() const { return ops_; }
  std::int64_t max_batch() const { return max_batch_; }
  std::int64_t max_seq() const { return max_seq_; }
  Use use() const { return use_; }

  /// Takes hold of every layer's heads from here on: `taps` has an entry for each layer and must
  /// outlive its use; null lets go.
  void set_taps(const HeadTap<T>* taps) { taps_ = taps; }

  /// Sum over counted targets of the loss, in nats.
  Sum<T> loss(const TokenBatch& batch);

  /// The same, and adds gradient_scale times its gradient to `gradients` (laid out like the
  /// parameters). Only with Use::kTraining.
  Sum<T> accumulate_gradients(const TokenBatch& batch, double gradient_scale, T* gradients);

  /// Runs the blocks over new tokens and returns the final norm's output, [B*T,C], valid until the
  /// next call. `caches` (one per layer, or empty) hold the positions before `first_position`.
  Matrix<const T> hidden_states(const std::int32_t* ids, std::int64_t batch, std::int64_t seq,
                                std::int64_t first_position, std::vector<KvCache<T>>& caches);

  /// Logits of some rows of hidden_states. Shapes: hidden [R,C]; logits [R,Vp]. Writes: logits (=).
  void logits(Matrix<const T> hidden, Matrix<T> logits) const;

 private:
  BlockActivations<T> block_rows(std::int64_t layer, std::int64_t rows) const;
  NormForward<T> norm_args(const NormWeights<T>& weights) const;
  void check_batch(std::int64_t batch, std::int64_t seq) const;
  void block_forward(std::int64_t layer, std::int64_t batch, std::int64_t rows,
                     const KvCache<T>& cache);
  void mlp_forward(const BlockWeights<T>& weights, const BlockActivations<T>& acts);
  void load_inputs(const std::int32_t* ids, std::int64_t count);
  void load_targets(const std::int32_t* targets, std::int64_t count);
  Matrix<const T> forward(std::int64_t batch, std::int64_t seq, std::int64_t first_position,
                          std::vector<KvCache<T>>& caches);
  void head_losses(std::int64_t rows, bool backward, double scale,
                   const ModelWeights<T>& gradients);
  void backward(std::int64_t batch, std::int64_t seq, const ModelWeights<T>& gradients);
  Sum<T> total_loss(std::int64_t rows);
  void norm_backward(const NormWeights<T>& weights, const NormWeights<T>& gradients, Matrix<T> x,
                     const T* mean, const T* rstd, bool first);
  void block_backward(std::int64_t layer, std::int64_t batch, std::int64_t rows,
                      const BlockWeights<T>& gradients);
  void linear_backward(const LinearWeights<T>& weights, const LinearWeights<T>& gradients,
                       Matrix<T> x, Matrix<T> dy, Matrix<T> dx);

  ModelConfig config_;
  ParameterLayout layout_;
  const Ops<T>& ops_;
  ModelWeights<T> weights_;
  ModelWeights<T> gradient_views_;  ///< of the array that accumulate_gradients saw last
  T* gradient_base_ = nullptr;
  std::int64_t max_batch_;
  std::int64_t max_seq_;
  Use use_;
  const HeadTap<T>* taps_ = nullptr;
  RepeatedWork step_;  ///< forward and backward of a batch of one shape
  Workspace<T> work_;
  Arena arena_;
};

/// Names the first tensor that holds a NaN or an infinity, in the order in which a step computes:
/// parameters, activations of the last forward pass, then gradients from the last layer to the
/// first; with layer and, where it has one, head (as L3H7). Empty when everything is finite.
/// Parameters and gradients in the host's memory.
std::string find_nonfinite(const Gpt<float>& model, const float* parameters, const float* gradients,
                           std::int64_t rows);

}  // namespace headloom
