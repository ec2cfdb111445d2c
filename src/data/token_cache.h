#pragma once

#include <cstdint>
#include <filesystem>

#include "base/files.h"
#include "data/corpus_reader.h"
#include "tokenizer/tokenizer.h"

namespace headloom {

/// A sequence of token ids in a mapped file: a 48-byte header, then u16 (vocabularies up to 65,536)
/// or u32 little-endian.
class TokenCache {
 public:
  /// Opens a finished cache. Errors: names file, offset and value: truncation, trailing bytes, a
  /// foreign file, an id outside the vocabulary.
  TokenCache(const std::filesystem::path& path, std::int64_t vocab_size);

  /// True when `path` is a whole cache with this fingerprint.
  static bool is_current(const std::filesystem::path& path, std::uint64_t fingerprint);

  /// Tokenizes the corpus, an end-of-text after each document, into a new cache, put in place
  /// atomically.
  static void build(const std::filesystem::path& path, const Corpus& corpus,
                    const Tokenizer& tokenizer, std::uint64_t fingerprint);

  std::int64_t size() const { return count_; }
  /// Bytes of text behind the tokens.
  std::int64_t text_bytes() const { return text_bytes_; }
  std::int32_t operator[](std::int64_t i) const {
    return wide_ != nullptr ? static_cast<std::int32_t>(wide_[i])
                            : static_cast<std::int32_t>(narrow_[i]);
  }

 private:
  MappedFile file_;
  std::int64_t count_ = 0;
  std::int64_t text_bytes_ = 0;
  const std::uint16_t* narrow_ = nullptr;
  const std::uint32_t* wide_ = nullptr;
};

/// Fingerprint of a corpus under a tokenizer.
std::uint64_t token_fingerprint(std::uint64_t corpus, const Tokenizer& tokenizer);

}  // namespace headloom
