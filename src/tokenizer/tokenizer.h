#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headloom {

/// Byte-level BPE: any byte string becomes token ids and comes back exactly.
class Tokenizer {
 public:
  static constexpr std::string_view kEndOfTextName = "<|endoftext|>";
  static constexpr std::int32_t kByteTokens = 256;

  using Pair = std::pair<std::int32_t, std::int32_t>;
  struct Merge {
    std::int32_t rank;    ///< smaller merges first
    std::int32_t merged;  ///< id of the joined token
  };

  /// 256 bytes and end-of-text, no merges: vocabulary 257.
  static Tokenizer bytes();
  /// Byte tokens in GPT-2's order, then merges in their order, then end-of-text. A merge whose
  /// joined bytes are already a token makes no new one.
  static Tokenizer from_merges(const std::vector<Pair>& merges);
  /// Reads a Hugging Face tokenizer.json, or a folder with vocab.json and merges.txt.
  /// Errors: names the file and the entry that is wrong.
  static Tokenizer load(const std::filesystem::path& path);

  /// Writes tokenizer.json, atomically.
  void save(const std::filesystem::path& path) const;

  std::int32_t vocab_size() const { return static_cast<std::int32_t>(tokens_.size()); }
  std::int32_t end_of_text() const { return end_of_text_; }
  /// The bytes of a token; of end-of-text, nothing. Units: 0 <= id < vocab_size.
  std::string_view token_bytes(std::int32_t id) const;
  std::int32_t byte_token(unsigned char byte) const { return byte_tokens_[byte]; }
  /// The merge of two neighbours, or null.
  const Merge* find_merge(std::int32_t left, std::int32_t right) const;

  std::string decode(std::span<const std::int32_t> ids) const;
  /// Changes whenever an encoding could.
  std::uint64_t fingerprint() const;

 private:
  friend class TokenizerReader;

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }

  std::vector<std::string> tokens_;  ///< bytes of each id
  std::vector<std::int32_t> byte_tokens_ = std::vector<std::int32_t>(kByteTokens, -1);
  std::vector<Pair> merges_;
  std::unordered_map<std::uint64_t, Merge> merge_of_;
  std::int32_t end_of_text_ = -1;
};

/// Turns text into ids, remembering the pieces it has met. One per thread.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// Appends the ids of `text`. The name of a special token in it is plain text.
  void encode(std::string_view text, std::vector<std::int32_t>& ids);

 private:
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& ids) const;

  const Tokenizer& tokenizer_;
  std::unordered_map<std::string, std::vector<std::int32_t>> known_;
};

/// Turns a stream of ids into text, holding back a UTF-8 character until it is whole.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// The text that became complete with this token.
  std::string add(std::int32_t id);
  /// What is still held back, at the end of the stream.
  std::string finish() { return std::exchange(pending_, {}); }

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
};

/// Counts pieces of text, then learns merges from the counts.
class BpeTrainer {
 public:
  /// Adds a document's pieces. Memory is bounded: pieces met once are forgotten when there are very
  /// many different ones.
  void add(std::string_view text);

  /// Learns merges until the vocabulary has `vocab_size` tokens, the byte tokens and end-of-text
  /// included, or nothing is left to merge. Ties go to the smaller ids, so the result is the same
  /// everywhere. Errors: kUsage when vocab_size < 257.
  /// Source: Sennrich et al. 2016, algorithm 1.
  Tokenizer train(std::int32_t vocab_size) const;

 private:
  std::unordered_map<std::string, std::int64_t> counts_;
};

}  // namespace headloom
