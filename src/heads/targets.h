#pragma once

#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/attend_probe.h"
#include "tokenizer/tokenizer.h"

namespace headloom {

/// B sequences of T token ids.
struct Sequences {
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::vector<std::int32_t> ids;      ///< [B*T]
  std::vector<std::int64_t> offsets;  ///< [B] where in its text each begins, in bytes; or empty

  std::int64_t rows() const { return batch * seq; }
  std::int32_t at(std::int64_t b, std::int64_t t) const {
    return ids[static_cast<std::size_t>(b * seq + t)];
  }
};

/// The next token of every row; kIgnoredTarget in the last row of each sequence.
std::vector<std::int32_t> next_tokens(const Sequences& sequences);

/// For every query of some sequences the keys that a head of one kind should look at.
struct Targets {
  std::string pattern;
  std::vector<std::int32_t> begin;  ///< [B*T + 1]
  std::vector<std::int32_t> keys;
  /// [B*T] rows whose next token such a head should help to predict; empty: the eligible ones.
  std::vector<bool> judged;
  bool of_position = false;  ///< the keys follow from the position alone, whatever the text is

  KeySet view() const { return {begin.data(), keys.data()}; }
  bool eligible(std::int64_t row) const {
    return begin[static_cast<std::size_t>(row) + 1] > begin[static_cast<std::size_t>(row)];
  }
  bool is_judged(std::int64_t row) const {
    return judged.empty() ? eligible(row) : judged[static_cast<std::size_t>(row)];
  }
  /// What uniform causal attention would put on the keys of a row at position t.
  double chance(std::int64_t row, std::int64_t t) const;
};

/// Targets from a function that appends the keys of query t of sequence b.
template <class Keys>
Targets collect_targets(const char* pattern, const Sequences& s, Keys&& keys_of) {
  Targets targets{.pattern = pattern, .begin = {0}, .keys = {}, .judged = {}};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t t = 0; t < s.seq; ++t) {
      keys_of(b, t, targets.keys);
      if (targets.keys.size() > std::numeric_limits<std::int32_t>::max()) {
        fail("{} has more keys than can be counted in these {} sequences; look at fewer", pattern,
             s.batch);
      }
      targets.begin.push_back(static_cast<std::int32_t>(targets.keys.size()));
    }
  }
  return targets;
}

/// The second null: the same rows with labels that belong elsewhere. Keys that hang on the text are
/// taken from the next sequence; keys that hang on the position alone become random ones.
Targets shuffled_targets(const Targets& targets, const Sequences& sequences, std::uint64_t seed);

/// Patterns that any tokens have: previous (the token before), current (itself), duplicate (earlier
/// copies of it), rare (the least frequent token so far, the latest of several). Source: Vig &
/// Belinkov 2019; TransformerLens; Voita et al. 2019.
std::vector<Targets> plain_targets(const Sequences& sequences);

/// Brackets and quotes of the text behind the tokens: `closer`, the opening partner at each closing
/// one; `open bracket`, the innermost one that is open, at every position inside. Source: Yao et
/// al. 2021. A closing bracket without a partner, or of another kind, closes nothing. `open
/// bracket` is judged where a closing one comes next.
std::vector<Targets> bracket_targets(const Sequences& sequences, const Tokenizer& tokenizer);

/// Random tokens that repeat: what a head that looks for the continuation of an earlier copy can do
/// there owes nothing to language. Every sequence has a period of its own, a quarter to a half of
/// its length, so that looking back by a fixed distance is of no help.
struct Repeated {
  Sequences sequences;
  std::vector<std::int64_t> period;  ///< [B] token t is token t - period again
};
Repeated repeated_random(std::int64_t batch, std::int64_t seq, std::int64_t vocab,
                         std::uint64_t seed);

/// Induction on such sequences: at every query that is a repetition the tokens that followed
/// earlier copies of it. Source: Olsson et al. 2022.
Targets induction_targets(const Repeated& repeated);

}  // namespace headloom
