#include "heads/targets.h"

#include <algorithm>
#include <string_view>

#include "base/rng.h"

namespace headloom {
namespace {

/// Targets from a function that appends the keys of query t of sequence b.
template <class Keys>
Targets collect(const char* pattern, const Sequences& s, Keys&& keys_of) {
  Targets targets{.pattern = pattern, .begin = {0}, .keys = {}};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t t = 0; t < s.seq; ++t) {
      keys_of(b, t, targets.keys);
      targets.begin.push_back(static_cast<std::int32_t>(targets.keys.size()));
    }
  }
  return targets;
}

constexpr std::string_view kOpeners = "([{", kClosers = ")]}";

/// The brackets that are open at a point of a text.
class OpenBrackets {
 public:
  /// Reads one token that stands at `position`. Returns the position of the partner of the last
  /// bracket or quote that it closes, -1 when it closes none.
  std::int32_t read(std::string_view bytes, std::int32_t position) {
    std::int32_t partner = -1;
    for (const char c : bytes) {
      const std::size_t closer = kClosers.find(c);
      const bool ends_quote = c == '"' && !open_.empty() && open_.back().kind == '"';
      if (closer != kClosers.npos || ends_quote) {
        const char wanted = ends_quote ? '"' : kOpeners[closer];
        if (open_.empty() || open_.back().kind != wanted) continue;
        partner = open_.back().position;
        open_.pop_back();
      } else if (c == '"' || kOpeners.find(c) != kOpeners.npos) {
        open_.push_back({c, position});
      }
    }
    return partner;
  }
  /// Position of the innermost open one, -1 when none is.
  std::int32_t innermost() const { return open_.empty() ? -1 : open_.back().position; }

 private:
  struct Open {
    char kind;
    std::int32_t position;
  };
  std::vector<Open> open_;
};

}  // namespace

double Targets::chance(std::int64_t row, std::int64_t t) const {
  const auto r = static_cast<std::size_t>(row);
  return static_cast<double>(begin[r + 1] - begin[r]) / static_cast<double>(t + 1);
}

std::vector<Targets> plain_targets(const Sequences& s) {
  std::vector<Targets> all;
  all.push_back(collect("previous", s, [](std::int64_t, std::int64_t t, auto& keys) {
    if (t > 0) keys.push_back(static_cast<std::int32_t>(t - 1));
  }));
  all.push_back(collect("current", s, [](std::int64_t, std::int64_t t, auto& keys) {
    keys.push_back(static_cast<std::int32_t>(t));
  }));
  all.push_back(collect("duplicate", s, [&](std::int64_t b, std::int64_t t, auto& keys) {
    for (std::int64_t j = 0; j < t; ++j) {
      if (s.at(b, j) == s.at(b, t)) keys.push_back(static_cast<std::int32_t>(j));
    }
  }));
  return all;
}

std::vector<Targets> bracket_targets(const Sequences& s, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> partner(s.ids.size()), innermost(s.ids.size());
  for (std::int64_t b = 0; b < s.batch; ++b) {
    OpenBrackets open;
    for (std::int64_t t = 0; t < s.seq; ++t) {
      const auto row = static_cast<std::size_t>(b * s.seq + t);
      const auto position = static_cast<std::int32_t>(t);
      partner[row] = open.read(tokenizer.token_bytes(s.at(b, t)), position);
      innermost[row] = open.innermost();
    }
  }
  const auto one_key = [&](const std::vector<std::int32_t>& key) {
    return [&](std::int64_t b, std::int64_t t, auto& keys) {
      const std::int32_t position = key[static_cast<std::size_t>(b * s.seq + t)];
      if (position >= 0) keys.push_back(position);
    };
  };
  return {collect("closer", s, one_key(partner)), collect("open bracket", s, one_key(innermost))};
}

Sequences repeated_random(std::int64_t batch, std::int64_t seq, std::int64_t vocab,
                          std::uint64_t seed) {
  Sequences s{.batch = batch, .seq = seq, .ids = {}};
  Rng rng(seed);
  const std::int64_t half = (seq + 1) / 2;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = 0; t < seq; ++t) {
      s.ids.push_back(t < half
                          ? static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(vocab)))
                          : s.at(b, t - half));
    }
  }
  return s;
}

Targets induction_targets(const Sequences& s) {
  const std::int64_t half = (s.seq + 1) / 2;
  return collect("induction", s, [&](std::int64_t b, std::int64_t t, auto& keys) {
    if (t < half) return;
    for (std::int64_t j = 1; j < t; ++j) {
      if (s.at(b, j - 1) == s.at(b, t)) keys.push_back(static_cast<std::int32_t>(j));
    }
  });
}

}  // namespace headloom
