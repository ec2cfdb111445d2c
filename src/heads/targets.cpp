#include "heads/targets.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/rng.h"
#include "ops/cross_entropy.h"

namespace headloom {
namespace {

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
        // A token that opens and closes by itself has no partner to look at.
        if (open_.back().position != position) partner = open_.back().position;
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

std::vector<std::int32_t> next_tokens(const Sequences& s) {
  std::vector<std::int32_t> next(s.ids.size(), kIgnoredTarget);
  for (std::int64_t row = 0; row + 1 < s.rows(); ++row) {
    const auto r = static_cast<std::size_t>(row);
    if ((row + 1) % s.seq != 0) next[r] = s.ids[r + 1];
  }
  return next;
}

double Targets::chance(std::int64_t row, std::int64_t t) const {
  const auto r = static_cast<std::size_t>(row);
  return static_cast<double>(begin[r + 1] - begin[r]) / static_cast<double>(t + 1);
}

Targets shuffled_targets(const Targets& targets, const Sequences& s, std::uint64_t seed) {
  Rng rng(mix_seed(seed, 0x73687566));
  return collect_targets(
      targets.pattern.c_str(), s, [&](std::int64_t b, std::int64_t t, auto& keys) {
        const std::int64_t row =
            targets.of_position ? b * s.seq + t : (b + 1) % s.batch * s.seq + t;
        const auto from = targets.keys.begin() + targets.begin[static_cast<std::size_t>(row)];
        const auto to = targets.keys.begin() + targets.begin[static_cast<std::size_t>(row) + 1];
        if (!targets.of_position) {
          keys.insert(keys.end(), from, to);
        } else if (from != to) {
          keys.push_back(static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(t + 1))));
        }
      });
}

std::vector<Targets> plain_targets(const Sequences& s) {
  std::vector<Targets> all;
  all.push_back(collect_targets("previous", s, [](std::int64_t, std::int64_t t, auto& keys) {
    if (t > 0) keys.push_back(static_cast<std::int32_t>(t - 1));
  }));
  all.back().of_position = true;
  all.push_back(collect_targets("current", s, [](std::int64_t, std::int64_t t, auto& keys) {
    keys.push_back(static_cast<std::int32_t>(t));
  }));
  all.back().of_position = true;
  all.push_back(collect_targets("duplicate", s, [&](std::int64_t b, std::int64_t t, auto& keys) {
    for (std::int64_t j = 0; j < t; ++j) {
      if (s.at(b, j) == s.at(b, t)) keys.push_back(static_cast<std::int32_t>(j));
    }
  }));
  std::unordered_map<std::int32_t, std::int64_t> count;
  for (const std::int32_t id : s.ids) count[id] += 1;
  std::int32_t rarest = 0;
  all.push_back(collect_targets("rare", s, [&](std::int64_t b, std::int64_t t, auto& keys) {
    if (t == 0 || count[s.at(b, t)] <= count[s.at(b, rarest)]) {
      rarest = static_cast<std::int32_t>(t);
    }
    keys.push_back(rarest);
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
  Targets open = collect_targets("open bracket", s, one_key(innermost));
  open.judged.resize(s.ids.size());
  for (std::size_t row = 0; row + 1 < s.ids.size(); ++row) {
    const bool last = (row + 1) % static_cast<std::size_t>(s.seq) == 0;
    open.judged[row] = !last && partner[row + 1] >= 0;
  }
  return {collect_targets("closer", s, one_key(partner)), open};
}

Repeated repeated_random(std::int64_t batch, std::int64_t seq, std::int64_t vocab,
                         std::uint64_t seed) {
  Repeated r{.sequences = {.batch = batch, .seq = seq, .ids = {}, .offsets = {}}, .period = {}};
  Sequences& s = r.sequences;
  Rng rng(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(n)));
  };
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t least = std::max<std::int64_t>(1, seq / 4), most = (seq + 1) / 2;
    r.period.push_back(least + below(most - least + 1));
    for (std::int64_t t = 0; t < seq; ++t) {
      const bool fresh = t < r.period.back();
      s.ids.push_back(fresh ? static_cast<std::int32_t>(below(vocab))
                            : s.at(b, t - r.period.back()));
    }
  }
  return r;
}

Targets induction_targets(const Repeated& repeated) {
  const Sequences& s = repeated.sequences;
  return collect_targets("induction", s, [&](std::int64_t b, std::int64_t t, auto& keys) {
    if (t < repeated.period[static_cast<std::size_t>(b)]) return;
    for (std::int64_t j = 1; j < t; ++j) {
      if (s.at(b, j - 1) == s.at(b, t)) keys.push_back(static_cast<std::int32_t>(j));
    }
  });
}

}  // namespace headloom
