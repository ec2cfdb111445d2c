#include "data/corpus_generator.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/fields.h"
#include "base/files.h"
#include "base/rng.h"

namespace headloom {
namespace {

constexpr const char* kNames[] = {"Anna",  "Boris", "Clara", "David", "Elena", "Felix", "Greta",
                                  "Hugo",  "Irene", "Jonas", "Karin", "Lucas", "Maria", "Nadia",
                                  "Oscar", "Paula", "Quinn", "Rosa",  "Simon", "Tessa"};
constexpr const char* kNouns[] = {
    "lamp",   "rope",   "basket", "stone",  "mirror",  "ladder", "bottle", "candle",
    "hammer", "needle", "apple",  "drum",   "feather", "glove",  "helmet", "jar",
    "kettle", "letter", "map",    "nail",   "oar",     "pillow", "ring",   "saddle",
    "shell",  "spoon",  "table",  "thread", "vase",    "wheel",  "anchor", "bell",
    "coin",   "door",   "flute",  "key",    "loom",    "pearl",  "scarf",  "whistle"};
constexpr const char* kAdjectives[] = {"red",    "old",    "small", "heavy",
                                       "bright", "broken", "new",   "quiet"};
constexpr const char* kPlaces[] = {"river", "market", "garden", "tower", "harbour", "forest"};

struct Verb {
  const char *past, *present, *future;
};
constexpr Verb kVerbs[] = {{"carried", "carries", "carry"}, {"washed", "washes", "wash"},
                           {"painted", "paints", "paint"},  {"moved", "moves", "move"},
                           {"opened", "opens", "open"},     {"repaired", "repairs", "repair"},
                           {"dropped", "drops", "drop"},    {"lifted", "lifts", "lift"}};

constexpr const char* kOpeners[] = {"(", "[", "{"};
constexpr const char* kClosers[] = {")", "]", "}"};
constexpr int kMaxDepth = 5;

}  // namespace

struct CorpusGenerator::State {
  explicit State(std::uint64_t seed) : rng(mix_seed(seed, 0x6C6F6F6D)) {}

  Rng rng;
  std::int64_t offset = 0;  ///< of the paragraph's first byte
  std::string text;
  std::string truth;

  int below(int n) { return static_cast<int>(rng.below(static_cast<std::uint64_t>(n))); }
  template <std::size_t N>
  const char* pick(const char* const (&words)[N]) {
    return words[below(static_cast<int>(N))];
  }

  /// Appends a word and returns its offset in the whole text (that of its first letter).
  std::int64_t word(const std::string& w) {
    if (!text.empty() && text.back() != '\n') text += ' ';
    text += w;
    return offset + static_cast<std::int64_t>(text.size() - w.size());
  }
  void words(std::initializer_list<const char*> list) {
    for (const char* w : list) word(w);
  }
  void end_sentence(const Json& facts) {
    word(".");
    text += '\n';
    truth += facts.dump() + "\n";
  }

  template <std::size_t N>
  std::vector<const char*> distinct(const char* const (&words)[N], int count) {
    std::vector<const char*> all(std::begin(words), std::end(words));
    for (int i = 0; i < count; ++i) {
      std::swap(all[static_cast<std::size_t>(i)],
                all[static_cast<std::size_t>(i + below(static_cast<int>(N) - i))]);
    }
    all.resize(static_cast<std::size_t>(count));
    return all;
  }

  void list_sentence() {
    const std::vector<const char*> items = distinct(kNouns, 5 + below(8));
    Json first = Json::array(), again = Json::array();
    words({"list", ":"});
    for (const char* item : items) first.push_back(word(item));
    words({";", "again", ":"});
    for (const char* item : items) again.push_back(word(item));
    end_sentence({{"kind", "list"}, {"first", first}, {"again", again}});
  }

  /// A noun phrase, now and then with a bracketed one inside.
  void nested_phrase(int depth, Json& pairs) {
    word("the");
    if (below(2) == 0) word(pick(kAdjectives));
    word(pick(kNouns));
    if (depth == kMaxDepth || below(100) >= (depth == 0 ? 100 : 65)) return;
    const int kind = below(3);
    const std::int64_t open = word(kOpeners[kind]);
    nested_phrase(depth + 1, pairs);
    if (below(3) == 0) {
      word("and");
      nested_phrase(depth + 1, pairs);
    }
    pairs.push_back({open, word(kClosers[kind])});
  }

  void bracket_sentence() {
    Json pairs = Json::array();
    const bool quoted = below(4) == 0;
    std::int64_t open = 0;
    if (quoted) {
      word(pick(kNames));
      word("said");
      open = word("\"");
    }
    nested_phrase(0, pairs);
    if (quoted) pairs.push_back({open, word("\"")});
    end_sentence({{"kind", "brackets"}, {"pairs", pairs}});
  }

  void story_sentence() {
    const std::vector<const char*> who = distinct(kNames, 2);
    const std::vector<const char*> what = distinct(kNouns, 1);
    std::vector<std::int64_t> giver, taker;
    giver.push_back(word(who[0]));
    word("gave");
    word("the");
    const std::int64_t thing = word(what[0]);
    word("to");
    taker.push_back(word(who[1]));
    word(".");
    // Telling it in either order keeps the names from being guessed by their place alone.
    if (below(2) == 0) {
      taker.push_back(word(who[1]));
      word("thanked");
      giver.push_back(word(who[0]));
    } else {
      giver.push_back(word(who[0]));
      word("left");
      taker.push_back(word(who[1]));
    }
    words({".", "who", "has", "the"});
    const std::int64_t asked = word(what[0]);
    word("?");
    const std::int64_t answer = word(who[1]);
    end_sentence(
        {{"kind", "story"},
         {"mentions", {{{"name", who[0]}, {"at", giver}}, {{"name", who[1]}, {"at", taker}}}},
         {"thing", {thing, asked}},
         {"answer", {answer, taker[0]}}});
  }

  /// Two words in turn: what comes next is what came before the last word.
  void chant_sentence() {
    const std::vector<const char*> pair = distinct(kNouns, 2);
    const int length = 6 + below(7);
    Json places = Json::array();
    words({"chant", ":"});
    for (int i = 0; i < length; ++i) places.push_back(word(pair[static_cast<std::size_t>(i % 2)]));
    end_sentence({{"kind", "chant"}, {"words", places}});
  }

  void time_sentence() {
    constexpr const char* kMarkers[] = {"yesterday", "today", "tomorrow"};
    constexpr const char* kTenses[] = {"past", "present", "future"};
    const int tense = below(3);
    const std::int64_t marker = word(kMarkers[tense]);
    Json verbs = Json::array();
    const int clauses = 1 + below(3);
    for (int i = 0; i < clauses; ++i) {
      if (i > 0) word("and");
      word(pick(kNames));
      const Verb& verb = kVerbs[below(static_cast<int>(std::size(kVerbs)))];
      if (tense == 2) word("will");
      verbs.push_back(word(tense == 0 ? verb.past : tense == 1 ? verb.present : verb.future));
      words({"the", pick(kNouns)});
      if (below(2) == 0) words({"near", "the", pick(kPlaces)});
    }
    end_sentence(
        {{"kind", "time"}, {"tense", kTenses[tense]}, {"marker", marker}, {"verbs", verbs}});
  }

  void sentence() {
    const int share = below(100);
    if (share < 25) {
      list_sentence();
    } else if (share < 48) {
      bracket_sentence();
    } else if (share < 70) {
      story_sentence();
    } else if (share < 85) {
      chant_sentence();
    } else {
      time_sentence();
    }
  }
};

CorpusGenerator::CorpusGenerator(std::uint64_t seed) : state_(std::make_unique<State>(seed)) {}

CorpusGenerator::~CorpusGenerator() = default;

GeneratedCorpus CorpusGenerator::paragraph() {
  const int sentences = 4 + state_->below(5);
  for (int i = 0; i < sentences; ++i) state_->sentence();
  state_->text += '\n';
  state_->offset += static_cast<std::int64_t>(state_->text.size());
  return {std::exchange(state_->text, {}), std::exchange(state_->truth, {})};
}

std::filesystem::path write_corpus(std::uint64_t seed, std::int64_t bytes,
                                   const std::filesystem::path& text) {
  std::filesystem::path truth = text;
  truth.replace_extension(".truth.jsonl");
  FileWriter text_file(text), truth_file(truth);
  CorpusGenerator generator(seed);
  while (static_cast<std::int64_t>(text_file.size()) < bytes) {
    const GeneratedCorpus part = generator.paragraph();
    text_file.write(part.text);
    truth_file.write(part.truth);
  }
  text_file.close();
  truth_file.close();
  return truth;
}

}  // namespace headloom
