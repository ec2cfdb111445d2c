#pragma once

#include <functional>
#include <string>

#include "heads/importance.h"
#include "heads/questions.h"

namespace headloom {

/// What a head is worth where one pattern should help. Changes are those that its mean ablation
/// makes.
struct PatternWorth {
  Estimate cost;       ///< nats of loss on the pattern's judged rows
  Estimate elsewhere;  ///< nats on all other rows; no rows where every row is judged
  Estimate logit;      ///< what the right token's logit loses on judged rows
  double p = 1;        ///< largest p of lift, cost and logit: all three must hold
  bool holds = false;  ///< passes for a role (see judge)
};

/// Everything that is known of one head.
struct HeadFindings {
  HeadScores scores;
  std::vector<PatternWorth> worth;  ///< in the order of scores.patterns
  Estimate cost;                    ///< mean ablation, all rows of the text
  HeadGradient gradient;
  std::string role;  ///< a pattern's name, "sink" or "unclassified"

  const HeadId& id() const { return scores.id; }
  /// The pattern that gave the role; null when none did.
  const PatternScore* role_score() const;
  const PatternWorth* role_worth() const;
};

/// Thresholds of the labels. They are stated in every report.
inline constexpr double kFalseDiscoveryRate = 0.05;
inline constexpr double kLeastLift = 0.1;
inline constexpr double kSinkMass = 0.3;

struct Examination {
  std::vector<Question> questions;
  std::vector<HeadFindings> heads;
  double loss = 0;  ///< of the whole model on the text, nats a token
  std::uint64_t seed = 1;
};

/// Scores against both nulls, ablation and gradients of every head, and roles. `progress` hears
/// how many heads are done. Determinism: the same seed gives the same numbers.
Examination examine(const LoadedModel& model, std::vector<Question> questions, std::uint64_t seed,
                    const std::function<void(std::int64_t done, std::int64_t all)>& progress = {},
                    const Ops<float>& ops = cpu_ops());

/// Gives roles. A head gets a pattern's name when (1) the lift's interval lies above both nulls and
/// its mean is at least kLeastLift, (2) taking the head away costs loss on the pattern's judged
/// rows, more there than elsewhere, (3) it lowers the right token's logit there, and the largest p
/// of lift, cost and logit is among those that Benjamini and Hochberg's procedure over all heads
/// and patterns rejects at kFalseDiscoveryRate. Of several such patterns the one with the greatest
/// lift is the role. Otherwise the head is a "sink" when its mean attention on position 0 is above
/// kSinkMass, else "unclassified".
void judge(std::vector<HeadFindings>& heads);

}  // namespace headloom
