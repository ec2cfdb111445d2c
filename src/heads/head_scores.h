#pragma once

#include <span>

#include "heads/targets.h"
#include "model/gpt.h"
#include "train/loaded_model.h"

namespace headloom {

template <>
struct EnumNames<HeadShape> {
  static constexpr std::string_view kNames[] = {"entropy",
                                                "distance",
                                                "confidence",
                                                "sink",
                                                "entropy_beyond_sink",
                                                "distance_beyond_sink",
                                                "confidence_beyond_sink"};
};

/// How much one head follows one pattern. All but rows are fractions.
struct PatternScore {
  std::string pattern;
  double score = 0;          ///< mean over eligible rows of the attention on the row's keys
  double hit_rate = 0;       ///< share of eligible rows whose likeliest key is one of them
  double chance = 0;         ///< the score of uniform causal attention
  double lift = 0;           ///< (score - chance) / (1 - chance)
  double low = 0, high = 0;  ///< 95% bootstrap interval of lift over sequences
  double null_lift = 0;      ///< largest lift of any head of the same model untrained
  std::int64_t rows = 0;     ///< eligible ones
};

/// One head, by what it looks at and how.
struct HeadScores {
  std::int64_t layer = 0, head = 0;
  std::vector<PatternScore> patterns;
  double shape[kHeadShapes] = {};  ///< means over rows, in the order of HeadShape

  double shape_of(HeadShape which) const { return shape[static_cast<int>(which)]; }
  std::string name() const;
  /// The pattern with the greatest lift.
  const PatternScore& strongest() const;
};

/// Where every head of a model looks, over sequences whose targets are known. Units: lifts compare
/// across patterns and contexts, scores do not. Changes nothing in the model.
std::vector<HeadScores> score_heads(const ModelConfig& config, float* parameters,
                                    const Sequences& sequences,
                                    const std::vector<Targets>& targets);

/// The whole examination of a trained model: plain and bracket patterns on `text` (token ids, cut
/// into sequences), induction on random tokens repeated, each against the same model untrained.
/// Determinism: the same seed gives the same numbers.
std::vector<HeadScores> examine_heads(const LoadedModel& model, std::span<const std::int32_t> text,
                                      std::int64_t sequences, std::int64_t seq, std::uint64_t seed);

}  // namespace headloom
