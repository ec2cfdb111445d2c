#pragma once

#include <string>
#include <vector>

#include "ops/attend_probe.h"
#include "tokenizer/tokenizer.h"

namespace headloom {

/// B sequences of T token ids.
struct Sequences {
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::vector<std::int32_t> ids;  ///< [B*T]

  std::int64_t rows() const { return batch * seq; }
  std::int32_t at(std::int64_t b, std::int64_t t) const {
    return ids[static_cast<std::size_t>(b * seq + t)];
  }
};

/// For every query of some sequences the keys that a head of one kind should look at.
struct Targets {
  std::string pattern;
  std::vector<std::int32_t> begin;  ///< [B*T + 1]
  std::vector<std::int32_t> keys;

  KeySet view() const { return {begin.data(), keys.data()}; }
  bool eligible(std::int64_t row) const {
    return begin[static_cast<std::size_t>(row) + 1] > begin[static_cast<std::size_t>(row)];
  }
  /// What uniform causal attention would put on the keys of a row at position t.
  double chance(std::int64_t row, std::int64_t t) const;
};

/// Patterns that any tokens have: previous (the token before), current (itself), duplicate (earlier
/// copies of it). Source: Vig & Belinkov 2019; TransformerLens.
std::vector<Targets> plain_targets(const Sequences& sequences);

/// Brackets and quotes of the text behind the tokens: `closer`, the opening partner at each closing
/// one; `open bracket`, the innermost one that is open, at every position inside. Source: Yao et
/// al. 2021. A closing bracket without a partner, or of another kind, closes nothing.
std::vector<Targets> bracket_targets(const Sequences& sequences, const Tokenizer& tokenizer);

/// Sequences whose second half repeats their first, of random tokens: what a head that looks for
/// the continuation of an earlier copy can do there owes nothing to language.
Sequences repeated_random(std::int64_t batch, std::int64_t seq, std::int64_t vocab,
                          std::uint64_t seed);

/// Induction on such sequences: at every query of the second half the tokens that followed earlier
/// copies of it. Source: Olsson et al. 2022.
Targets induction_targets(const Sequences& repeated);

}  // namespace headloom
