#pragma once

#include "heads/ablation.h"
#include "train/trainer.h"

namespace headloom {

/// The slices of one tensor set (weights, gradients, updates) that belong to one head. Key and
/// value columns are shared by a group of heads where there are fewer key heads.
struct HeadSlices {
  Matrix<const float> query, key, value;  ///< [C,HS] each
  Matrix<const float> out;                ///< [HS,C]
  std::int64_t group = 1;                 ///< heads that share key and value
};
HeadSlices head_slices(const ModelConfig& config, const ModelWeights<const float>& weights,
                       const HeadId& head);

/// Gathers what the backward passes of a model say about its heads.
class GradientTaps {
 public:
  explicit GradientTaps(const ModelConfig& config);
  GradientTaps(const GradientTaps&) = delete;
  GradientTaps& operator=(const GradientTaps&) = delete;

  /// For Gpt::set_taps.
  const HeadTap<float>* taps() const { return taps_.data(); }
  /// Sums over sequences seen since the last clear, in the order of all_heads: of |<z, dL/dz>|, of
  /// <z, dL/dz>, and of the squares of dL/dz.
  const std::vector<double>& absolute() const { return absolute_; }
  const std::vector<double>& sum() const { return sum_; }
  const std::vector<double>& squares() const { return squares_; }
  std::int64_t sequences() const { return sequences_; }
  void clear();

 private:
  void see(std::int64_t layer, const Heads<const float>& out, const Heads<const float>& dout);

  std::int64_t heads_;
  std::vector<std::int64_t> first_;
  std::vector<HeadTap<float>> taps_;
  std::vector<double> absolute_, sum_, squares_;
  std::int64_t sequences_ = 0;
};

/// What a head is worth to the gradient.
struct HeadGradient {
  double importance = 0;     ///< mean over sequences of |dL/dxi|, xi a gate of 1 on the head
  double gate_gradient = 0;  ///< the signed one of the batch: equals <Wo, dL/dWo>
  double output_norm = 0;    ///< norm of dL/dz
  double weight_norm = 0;    ///< Frobenius norm of the gradient of its slices
  double share = 0;          ///< weight_norm^2 over the sum of those of its layer
};

/// Share of each head in its layer of the squared norm of its slices, in the order of all_heads.
/// Gradients of keys and values that a group of heads shares count in equal parts.
std::vector<double> layer_shares(const ModelConfig& config, const ModelWeights<const float>& slices,
                                 std::vector<double>* norms = nullptr);

/// Shares like layer_shares, of what AdamW's last step moved: (m / (1 - b1^t)) / (sqrt(v / (1 -
/// b2^t)) + eps) + decay * weight. Adam rescales gradients, so that a small gradient may move as
/// much as a large one.
std::vector<double> update_shares(const Trainer& trainer);

/// Gradients on some sequences, each sequence's loss the mean over its tokens. Source: Michel et
/// al. 2019 (the absolute value per example, then the mean).
std::vector<HeadGradient> head_gradients(const ModelConfig& config, float* parameters,
                                         const Sequences& sequences,
                                         const Ops<float>& ops = cpu_ops());

}  // namespace headloom
