#include <algorithm>
#include <queue>

#include "base/error.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/tokenizer.h"

namespace headloom {
namespace {

/// Different pieces kept at most; beyond, those met once are dropped. Some 300 MB.
constexpr std::size_t kMaxPieces = 4'000'000;
/// Longer pieces (a megabyte of one letter) are cut for counting only: their merges are learnt from
/// the parts, at a cost that does not grow with their length.
constexpr std::size_t kMaxPieceBytes = 256;

struct Word {
  std::vector<std::int32_t> ids;
  std::int64_t count;
};

struct Candidate {
  std::int64_t count;
  Tokenizer::Pair pair;

  /// The most frequent pair first; of equals, the one with the smaller ids.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

struct PairHash {
  std::size_t operator()(const Tokenizer::Pair& pair) const {
    const std::uint64_t both =
        static_cast<std::uint64_t>(pair.first) << 32 | static_cast<std::uint32_t>(pair.second);
    return both * 0x9E3779B97F4A7C15ULL >> 17;
  }
};

/// The words of a corpus and, for each pair of neighbours, its count and the words that hold it.
class MergeLearner {
 public:
  explicit MergeLearner(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      const std::vector<std::int32_t>& ids = words_[w].ids;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) count({ids[i], ids[i + 1]}, w, +1);
    }
    for (const auto& [pair, stats] : pairs_) queue_.push({stats.count, pair});
  }

  /// The pair to merge next; false when no pair is left.
  bool best(Tokenizer::Pair* pair) {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const std::int64_t current = pairs_[top.pair].count;
      if (current <= 0) continue;
      if (current == top.count) {
        *pair = top.pair;
        return true;
      }
      queue_.push({current, top.pair});  // It has shrunk since it was queued.
    }
    return false;
  }

  void merge(Tokenizer::Pair pair, std::int32_t merged) {
    std::vector<std::size_t> holders = std::move(pairs_[pair].words);
    std::sort(holders.begin(), holders.end());
    holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
    grown_.clear();
    for (const std::size_t w : holders) merge_in_word(w, pair, merged);
    pairs_.erase(pair);
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const Tokenizer::Pair& next : grown_) queue_.push({pairs_[next].count, next});
  }

 private:
  struct Stats {
    std::int64_t count = 0;
    std::vector<std::size_t> words;
  };

  void count(Tokenizer::Pair pair, std::size_t word, int sign) {
    Stats& stats = pairs_[pair];
    stats.count += sign * words_[word].count;
    if (sign > 0 && (stats.words.empty() || stats.words.back() != word)) {
      stats.words.push_back(word);
    }
  }

  void merge_in_word(std::size_t w, Tokenizer::Pair pair, std::int32_t merged) {
    std::vector<std::int32_t>& ids = words_[w].ids;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      if (ids[i] != pair.first || ids[i + 1] != pair.second) continue;
      if (i > 0) {
        count({ids[i - 1], ids[i]}, w, -1);
        count({ids[i - 1], merged}, w, +1);
        grown_.emplace_back(ids[i - 1], merged);
      }
      if (i + 2 < ids.size()) {
        count({ids[i + 1], ids[i + 2]}, w, -1);
        count({merged, ids[i + 2]}, w, +1);
        grown_.emplace_back(merged, ids[i + 2]);
      }
      ids[i] = merged;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }

  std::vector<Word> words_;
  std::unordered_map<Tokenizer::Pair, Stats, PairHash> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<Tokenizer::Pair> grown_;
};

}  // namespace

void BpeTrainer::add(std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(text, begin);
    for (; begin < end; begin += std::min(kMaxPieceBytes, end - begin)) {
      ++counts_[std::string(text.substr(begin, std::min(kMaxPieceBytes, end - begin)))];
    }
    if (counts_.size() > kMaxPieces) {
      std::erase_if(counts_, [](const auto& entry) { return entry.second == 1; });
    }
  }
}

Tokenizer BpeTrainer::train(std::int32_t vocab_size) const {
  if (vocab_size <= Tokenizer::kByteTokens) {
    fail_usage("a vocabulary of {} is too small: 256 bytes and end-of-text need 257", vocab_size);
  }
  const Tokenizer bytes = Tokenizer::bytes();
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts_.begin(), counts_.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<Word> words;
  for (const auto& [piece, count] : sorted) {
    Word word{{}, count};
    for (const char byte : piece) {
      word.ids.push_back(bytes.byte_token(static_cast<unsigned char>(byte)));
    }
    words.push_back(std::move(word));
  }
  MergeLearner learner(std::move(words));
  std::vector<Tokenizer::Pair> merges;
  std::vector<std::string> tokens;
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::int32_t id = 0; id < Tokenizer::kByteTokens; ++id) {
    tokens.emplace_back(bytes.token_bytes(id));
    ids[tokens.back()] = id;
  }
  Tokenizer::Pair pair;
  while (static_cast<std::int32_t>(tokens.size()) + 1 < vocab_size && learner.best(&pair)) {
    const std::string joined = tokens[static_cast<std::size_t>(pair.first)] +
                               tokens[static_cast<std::size_t>(pair.second)];
    const auto [place, is_new] = ids.emplace(joined, static_cast<std::int32_t>(tokens.size()));
    if (is_new) tokens.push_back(joined);
    merges.push_back(pair);
    learner.merge(pair, place->second);
  }
  return Tokenizer::from_merges(merges);
}

}  // namespace headloom
