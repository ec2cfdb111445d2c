#pragma once

#include <memory>
#include <vector>

#include "data/batches.h"
#include "model/gpt.h"
#include "train/config.h"

namespace headloom {

/// What one optimizer step did.
struct StepMetrics {
  std::int64_t step = 0;  ///< counts from 1
  double loss = 0;        ///< mean over the step's targets, nats
  double learning_rate = 0;
  double gradient_norm = 0;  ///< before clipping
  double clip_factor = 1;
  std::int64_t tokens = 0;  ///< inputs in this step
  double seconds = 0;
};

/// Mean loss over held-out text, in nats, and the number of targets it is a mean of.
struct Evaluation {
  double loss = 0;
  std::int64_t targets = 0;
};

/// A model, its optimizer and its place in the data.
class Trainer {
 public:
  /// Draws initial weights from the seed.
  Trainer(const RunConfig& config, const TokenCache& tokens, const CorpusSplit& split,
          const Ops<float>& ops);

  /// One optimizer step: grad_accum micro-batches, clip, AdamW.
  /// Errors: kDiverged when the loss or the gradient is not finite, naming the step and the first
  /// tensor, layer and head; the weights are then those of the step before.
  StepMetrics step();

  /// Loss on the first eval_windows held-out windows (evenly chosen). Changes nothing.
  Evaluation evaluate();

  /// See Gpt::set_taps: what takes hold of the heads sees them in every step until it lets go.
  void set_taps(const HeadTap<float>* taps) { model_.set_taps(taps); }

  std::int64_t steps_done() const { return steps_done_; }
  const RunConfig& config() const { return config_; }
  const ParameterLayout& layout() const { return model_.layout(); }
  /// In the memory of ops().device, all laid out like the parameters.
  const ParameterArray<float>& parameters() const { return parameters_; }
  const ParameterArray<float>& gradients() const { return gradients_; }
  const ParameterArray<float>& moment1() const { return moment1_; }  ///< AdamW's m
  const ParameterArray<float>& moment2() const { return moment2_; }  ///< AdamW's v
  const BatchSource& batches() const { return batches_; }
  const Ops<float>& ops() const { return ops_; }
  /// Continues where a checkpoint stood; weights and moments are set through the arrays above.
  void restore_position(std::int64_t steps_done, std::int64_t epoch, std::int64_t cursor);

 private:
  double accumulate();
  double gradient_norm() const;
  void update(double learning_rate, double scale);
  [[noreturn]] void report_divergence(const char* what, double value) const;

  RunConfig config_;
  const Ops<float>& ops_;
  ParameterLayout parameter_layout_;
  ParameterArray<float> parameters_;
  ParameterArray<float> gradients_;
  ParameterArray<float> moment1_;
  ParameterArray<float> moment2_;
  Gpt<float> model_;
  const TokenCache& tokens_;
  BatchSource batches_;
  std::vector<std::int64_t> validation_;
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> targets_;
  std::int64_t steps_done_ = 0;
};

}  // namespace headloom
