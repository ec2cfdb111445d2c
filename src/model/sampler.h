#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/rng.h"

namespace headloom {

/// How the next token is chosen. The filters apply in the order of the fields.
struct SamplerConfig {
  double repetition_penalty = 1.0;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& field) {
    field("repetition_penalty", "divides positive logits of tokens already there; 1: off",
          self.repetition_penalty);
    field("temperature", "0: always the likeliest token", self.temperature);
    field("top_k", "only the k likeliest tokens; 0: all", self.top_k);
    field("top_p", "only the likeliest tokens that together hold this probability", self.top_p);
    field("min_p", "only tokens at least this fraction as likely as the likeliest", self.min_p);
  }

  /// Errors: kUsage with every violation at once.
  void validate() const;
};

/// Draws a token from logits.
/// Shapes: logits [V]. `seen` are the tokens that the repetition penalty applies to.
/// Source: Keskar et al. 2019 (penalty), Fan et al. 2018 (top-k), Holtzman et al. 2020 (top-p).
std::int32_t sample_token(std::span<const float> logits, std::span<const std::int32_t> seen,
                          const SamplerConfig& config, Rng& rng);

}  // namespace headloom
