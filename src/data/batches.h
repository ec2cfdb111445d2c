#pragma once

#include <cstdint>
#include <vector>

#include "data/token_cache.h"

namespace headloom {

/// A run of consecutive tokens, [begin, end).
struct Segment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Tokens to learn from and tokens held out.
struct CorpusSplit {
  std::vector<Segment> train;
  std::vector<Segment> validation;
};

/// Holds out about `fraction` of the tokens, in blocks spread evenly over the corpus, so that what
/// is held out is like what is learnt. Nothing is held out when fraction is 0. Errors: kFailed
/// "needs at least N tokens, has M".
CorpusSplit split_corpus(std::int64_t tokens, std::int64_t context, double fraction);

/// The first window of `seq` inputs and their targets that starts at `begin`.
void read_window(const TokenCache& tokens, std::int64_t begin, std::int64_t seq,
                 std::int32_t* inputs, std::int32_t* targets);

/// Starts of all whole windows of seq + 1 tokens in the segments, `seq` apart, the first one
/// `offset` into each segment.
std::vector<std::int64_t> window_starts(const std::vector<Segment>& segments, std::int64_t seq,
                                        std::int64_t offset);

/// Hands out windows in a random order, each once per epoch. Every epoch has its own permutation
/// and its own offset into the text, both drawn from the seed and the epoch's number alone, so that
/// the position (epoch, cursor) is all there is to save.
class BatchSource {
 public:
  BatchSource(const TokenCache& tokens, std::vector<Segment> segments, std::int64_t seq,
              std::uint64_t seed);

  /// Fills the next `batch` windows. Shapes: inputs, targets int32 [batch * seq].
  void next(std::int64_t batch, std::int32_t* inputs, std::int32_t* targets);

  std::int64_t epoch() const { return epoch_; }
  std::int64_t cursor() const { return cursor_; }
  void seek(std::int64_t epoch, std::int64_t cursor);
  /// Windows in an epoch (the first; later ones may have one fewer per segment).
  std::int64_t windows() const;

 private:
  void shuffle();

  const TokenCache& tokens_;
  std::vector<Segment> segments_;
  std::int64_t seq_;
  std::uint64_t seed_;
  std::int64_t epoch_ = 0;
  std::int64_t cursor_ = 0;
  std::vector<std::int64_t> starts_;
};

/// Entropy in nats of the token distribution: what a model reaches that knows only frequencies.
double unigram_entropy(const TokenCache& tokens, std::int64_t vocab_size);

}  // namespace headloom
