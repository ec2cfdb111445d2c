#include "data/batches.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"

namespace headloom {

CorpusSplit split_corpus(std::int64_t tokens, std::int64_t context, double fraction) {
  const std::int64_t window = context + 1;
  const bool holds_out = fraction > 0;
  const std::int64_t needed = holds_out ? 3 * window : window;
  if (tokens < needed) {
    fail(
        "the corpus needs at least {} tokens for a context of {}{}, it has {}; give it more text "
        "or "
        "a smaller context",
        needed, context, holds_out ? " and held-out text" : "", tokens);
  }
  CorpusSplit split;
  if (!holds_out) {
    split.train.push_back({0, tokens});
    return split;
  }
  // As many blocks as make sense: at least one window each, at most 32.
  const auto held_out = std::max<std::int64_t>(
      window, static_cast<std::int64_t>(fraction * static_cast<double>(tokens)));
  const std::int64_t blocks = std::clamp<std::int64_t>(held_out / (4 * window), 1, 32);
  const std::int64_t size = held_out / blocks;
  std::int64_t end_of_last = 0;
  for (std::int64_t i = 0; i < blocks; ++i) {
    // In the middle of its share of the corpus.
    const std::int64_t share_begin = tokens * i / blocks, share_end = tokens * (i + 1) / blocks;
    const std::int64_t begin = share_begin + (share_end - share_begin - size) / 2;
    split.train.push_back({end_of_last, begin});
    split.validation.push_back({begin, begin + size});
    end_of_last = begin + size;
  }
  split.train.push_back({end_of_last, tokens});
  return split;
}

void read_window(const TokenCache& tokens, std::int64_t begin, std::int64_t seq,
                 std::int32_t* inputs, std::int32_t* targets) {
  for (std::int64_t t = 0; t < seq; ++t) {
    inputs[t] = tokens[begin + t];
    targets[t] = tokens[begin + t + 1];
  }
}

std::vector<std::int64_t> window_starts(const std::vector<Segment>& segments, std::int64_t seq,
                                        std::int64_t offset) {
  std::vector<std::int64_t> starts;
  for (const Segment& segment : segments) {
    for (std::int64_t begin = segment.begin + offset; begin + seq + 1 <= segment.end;
         begin += seq) {
      starts.push_back(begin);
    }
  }
  return starts;
}

BatchSource::BatchSource(const TokenCache& tokens, std::vector<Segment> segments, std::int64_t seq,
                         std::uint64_t seed)
    : tokens_(tokens), segments_(std::move(segments)), seq_(seq), seed_(seed) {
  shuffle();
}

void BatchSource::shuffle() {
  Rng rng(mix_seed(seed_, static_cast<std::uint64_t>(epoch_)));
  // A corpus of hardly one window has no room for an offset.
  const auto offset = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(seq_)));
  starts_ = window_starts(segments_, seq_, offset);
  if (starts_.empty()) starts_ = window_starts(segments_, seq_, 0);
  if (starts_.empty()) fail("no training text is as long as one context of {} tokens", seq_);
  for (std::size_t i = starts_.size() - 1; i > 0; --i) {
    std::swap(starts_[i], starts_[static_cast<std::size_t>(rng.below(i + 1))]);
  }
}

void BatchSource::next(std::int64_t batch, std::int32_t* inputs, std::int32_t* targets) {
  for (std::int64_t b = 0; b < batch; ++b) {
    if (cursor_ == static_cast<std::int64_t>(starts_.size())) seek(epoch_ + 1, 0);
    const std::int64_t begin = starts_[static_cast<std::size_t>(cursor_++)];
    read_window(tokens_, begin, seq_, inputs + b * seq_, targets + b * seq_);
  }
}

void BatchSource::seek(std::int64_t epoch, std::int64_t cursor) {
  if (epoch != epoch_) {
    epoch_ = epoch;
    shuffle();
  }
  if (cursor < 0 || cursor > static_cast<std::int64_t>(starts_.size())) {
    fail("data cursor {} does not fit an epoch of {} windows", cursor, starts_.size());
  }
  cursor_ = cursor;
}

std::int64_t BatchSource::windows() const {
  return static_cast<std::int64_t>(window_starts(segments_, seq_, 0).size());
}

double unigram_entropy(const TokenCache& tokens, std::int64_t vocab_size) {
  std::vector<double> counts(static_cast<std::size_t>(vocab_size), 0.0);
  for (std::int64_t i = 0; i < tokens.size(); ++i) counts[static_cast<std::size_t>(tokens[i])] += 1;
  double entropy = 0;
  for (const double count : counts) {
    const double p = count / static_cast<double>(tokens.size());
    if (p > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

}  // namespace headloom
