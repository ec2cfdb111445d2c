#include <algorithm>

#include "report/report.h"

namespace headloom {
namespace {

/// How a pattern is said in a sentence.
struct Wording {
  const char* pattern;
  const char* on;     ///< "of its attention on ..."
  const char* where;  ///< "costs ... nats ..."
};

constexpr Wording kWordings[] = {
    {"previous", "the token before", "at all tokens that have one"},
    {"current", "the token itself", "at all tokens"},
    {"duplicate", "earlier copies of the token", "at tokens that came before"},
    {"rare", "the rarest token so far", "at all tokens"},
    {"closer", "the partner of the closing bracket or quote it stands on", "after closers"},
    {"open bracket", "the innermost open bracket or quote", "where a closer comes next"},
    {"last name", "the latest name", "where a name comes next"},
    {"repeated name", "earlier mentions of the name that comes next",
     "where a known name comes next"},
    {"tense", "the time marker that rules the next verb", "where such a verb comes next"},
    {"answer", "the name that is the answer", "where the answer comes next"},
    {"induction", "what followed an earlier copy of the token",
     "in the second half of repeated random tokens"}};

const Wording& wording_of(const std::string& pattern) {
  return *std::find_if(std::begin(kWordings), std::end(kWordings) - 1,
                       [&](const Wording& w) { return pattern == w.pattern; });
}

std::string sentence(const HeadFindings& head, const PatternScore& p, const PatternWorth& w) {
  const Wording& words = wording_of(p.pattern);
  std::string text = fmt::format(
      "{} ({}): {:.2f} of its attention is on {} (chance {:.2f}; lift {:.2f}, 95% interval {:.2f} "
      "to "
      "{:.2f}, nulls {:.2f} and {:.2f}); without it the loss rises by {:.3f} nats {}",
      head.id().name(), p.pattern, p.score, words.on, p.chance, p.lift, p.low, p.high, p.null_lift,
      p.shuffled_lift, w.cost.mean, words.where);
  if (w.elsewhere.rows > 0) text += fmt::format(", by {:.3f} elsewhere", w.elsewhere.mean);
  return text + ".";
}

}  // namespace

std::vector<std::string> findings_in_words(const Examination& e) {
  struct Entry {
    double cost;
    std::string text;
  };
  std::vector<Entry> entries;
  std::size_t sinks = 0, unclassified = 0;
  for (const HeadFindings& head : e.heads) {
    sinks += head.role == "sink" ? 1 : 0;
    unclassified += head.role == "unclassified" ? 1 : 0;
    for (std::size_t k = 0; k < head.worth.size(); ++k) {
      const PatternWorth& worth = head.worth[k];
      if (!worth.holds) continue;
      entries.push_back({worth.cost.mean, sentence(head, head.scores.patterns[k], worth)});
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.cost > b.cost; });
  std::vector<std::string> texts;
  for (Entry& entry : entries) texts.push_back(std::move(entry.text));
  texts.push_back(fmt::format(
      "Of {} heads {} follow a pattern and are worth something by it, {} are sinks (more than "
      "{:.0f}% "
      "of their attention on the first token), and of {} nothing can be said.",
      e.heads.size(), e.heads.size() - sinks - unclassified, sinks, 100 * kSinkMass, unclassified));
  return texts;
}

}  // namespace headloom
