#include "heads/truth.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/fields.h"
#include "base/files.h"

namespace headloom {
namespace {

/// Two places of a text that belong together, as offsets of their first letters in bytes.
struct Link {
  std::int64_t from, to;
};

/// The links of each kind in one line of truth.
void read_line(const Json& fact, std::vector<Link>& tense, std::vector<Link>& answer) {
  const std::string kind = fact.at("kind");
  if (kind == "time") {
    for (const Json& verb : fact.at("verbs")) tense.push_back({verb, fact.at("marker")});
  } else if (kind == "story") {
    answer.push_back({fact.at("answer").at(0), fact.at("answer").at(1)});
  }
}

/// Tokens of one sequence by the offsets of their bytes in the text.
class TokenOffsets {
 public:
  TokenOffsets(const Sequences& s, std::int64_t b, const Tokenizer& tokenizer) {
    std::int64_t end = s.offsets[static_cast<std::size_t>(b)];
    begin_ = end;
    for (std::int64_t t = 0; t < s.seq; ++t) {
      end += static_cast<std::int64_t>(tokenizer.token_bytes(s.at(b, t)).size());
      ends_.push_back(end);
    }
  }
  /// The token that holds the byte at this offset; -1 when none does.
  std::int32_t at(std::int64_t offset) const {
    if (offset < begin_ || offset >= ends_.back()) return -1;
    return static_cast<std::int32_t>(std::upper_bound(ends_.begin(), ends_.end(), offset) -
                                     ends_.begin());
  }

 private:
  std::int64_t begin_ = 0;
  std::vector<std::int64_t> ends_;
};

/// At the token before each link's `from`, the token of its `to`.
Targets link_targets(const char* pattern, const Sequences& s, const Tokenizer& tokenizer,
                     std::vector<Link> links) {
  std::sort(links.begin(), links.end(),
            [](const Link& a, const Link& b) { return a.from < b.from; });
  std::vector<std::int32_t> key(s.ids.size(), -1);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const TokenOffsets tokens(s, b, tokenizer);
    auto link =
        std::lower_bound(links.begin(), links.end(), s.offsets[static_cast<std::size_t>(b)],
                         [](const Link& a, std::int64_t offset) { return a.from < offset; });
    for (; link != links.end() && tokens.at(link->from) >= 0; ++link) {
      const std::int32_t from = tokens.at(link->from), to = tokens.at(link->to);
      if (to >= 0 && to < from) key[static_cast<std::size_t>(b * s.seq + from - 1)] = to;
    }
  }
  return collect_targets(pattern, s, [&](std::int64_t b, std::int64_t t, auto& keys) {
    const std::int32_t position = key[static_cast<std::size_t>(b * s.seq + t)];
    if (position >= 0) keys.push_back(position);
  });
}

}  // namespace

std::vector<Targets> truth_targets(const Sequences& s, const Tokenizer& tokenizer,
                                   const std::filesystem::path& truth) {
  if (static_cast<std::int64_t>(s.offsets.size()) != s.batch) {
    fail("{} says where in the text things are, but the sequences do not know where they lie",
         truth.string());
  }
  std::vector<Link> tense, answer;
  std::istringstream lines(read_file(truth));
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    try {
      read_line(Json::parse(line), tense, answer);
    } catch (const Json::exception& error) {
      fail("{}, line {}: {}", truth.string(), number, error.what());
    }
  }
  return {link_targets("tense", s, tokenizer, std::move(tense)),
          link_targets("answer", s, tokenizer, std::move(answer))};
}

}  // namespace headloom
