#pragma once

#include "heads/ablation.h"

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
  double shuffled_lift = 0;  ///< its own lift on labels that belong elsewhere
  double p = 1;              ///< chance of such a lift if the truth were the larger null
  std::int64_t rows = 0;     ///< eligible ones
};

/// One head, by what it looks at and how.
struct HeadScores {
  HeadId id;
  std::vector<PatternScore> patterns;
  double shape[kHeadShapes] = {};  ///< means over rows, in the order of HeadShape

  double shape_of(HeadShape which) const { return shape[static_cast<int>(which)]; }
  /// The pattern with the greatest lift. There must be one.
  const PatternScore& strongest() const;
};

/// Sequences and what heads might look for in them.
struct Question {
  Sequences sequences;
  std::vector<Targets> targets;
};

/// Where every head of a model looks: scores and lifts alone, without intervals, nulls and p.
std::vector<HeadScores> plain_scores(const ModelConfig& config, float* parameters,
                                     const Question& question, const Ops<float>& ops = cpu_ops());

/// Where every head of a model looks. Units: lifts compare across patterns and contexts, scores do
/// not. Changes nothing in the model. Without `untrained` (parameters of the same model, fresh)
/// there are no nulls, and p is that of a lift above 0.
std::vector<HeadScores> score_heads(const ModelConfig& config, float* parameters,
                                    const Question& question, float* untrained = nullptr,
                                    std::uint64_t seed = 1, const Ops<float>& ops = cpu_ops());

}  // namespace headloom
