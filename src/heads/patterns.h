#pragma once

#include <functional>

#include "heads/ablation.h"
#include "heads/readable_model.h"

namespace headloom {

/// Runs sequences through a model one after the other and shows each layer as it was left: q, k and
/// log-sum-exp, from which every row of attention can be made again. Nothing larger than one row is
/// ever kept.
class PatternReader {
 public:
  PatternReader(const ModelConfig& config, float* parameters, std::int64_t seq,
                const Ops<float>& ops = cpu_ops());

  void read(const std::int32_t* ids);
  /// Attention of one head at query i of the sequence read last, keys 0 ... i.
  /// Shapes: row [i + 1].
  void row(const HeadId& head, std::int64_t i, float* row) const;
  /// Output of one head at position i, with what it takes from position 0 removed and the rest
  /// scaled up to a whole; zeros where nothing is left. Shapes: out [HS].
  void output_beyond_sink(const HeadId& head, std::int64_t i, float* out) const;
  std::int64_t seq() const { return seq_; }

 private:
  const BlockActivations<float>& acts(std::int64_t layer) const {
    return acts_[static_cast<std::size_t>(layer)];
  }
  float score(const SplitHeads<float>& s, const HeadId& head, std::int64_t i, std::int64_t j) const;

  ModelConfig config_;
  std::int64_t seq_;
  std::unique_ptr<ReadableModel> model_;
  std::vector<BlockActivations<float>> acts_;  ///< as the pass left them
};

}  // namespace headloom
