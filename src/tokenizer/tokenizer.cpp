#include "tokenizer/tokenizer.h"

#include <queue>

#include "base/error.h"
#include "base/files.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/pretokenize.h"

namespace headloom {
namespace {

/// Pieces remembered by an encoder before it starts afresh: some ten megabytes.
constexpr std::size_t kMaxKnownPieces = 100'000;

/// Symbols of one piece as a doubly linked list, so that a merge costs the same anywhere.
struct Symbol {
  std::int32_t id;
  std::int32_t previous;
  std::int32_t next;
};

struct Candidate {
  std::int32_t rank;
  std::int32_t left;  ///< index of the left symbol
  std::int32_t left_id, right_id;

  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

using Queue = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;

void offer(const Tokenizer& tokenizer, const std::vector<Symbol>& symbols, std::int32_t left,
           Queue& queue) {
  if (left < 0 || symbols[static_cast<std::size_t>(left)].next < 0) return;
  const Symbol& a = symbols[static_cast<std::size_t>(left)];
  const Symbol& b = symbols[static_cast<std::size_t>(a.next)];
  const Tokenizer::Merge* merge = tokenizer.find_merge(a.id, b.id);
  if (merge != nullptr) queue.push({merge->rank, left, a.id, b.id});
}

}  // namespace

Tokenizer Tokenizer::bytes() {
  return from_merges({});
}

Tokenizer Tokenizer::from_merges(const std::vector<Pair>& merges) {
  Tokenizer result;
  for (const unsigned char byte : byte_order()) {
    result.byte_tokens_[byte] = result.vocab_size();
    result.tokens_.emplace_back(1, static_cast<char>(byte));
  }
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::int32_t id = 0; id < kByteTokens; ++id)
    ids[result.tokens_[static_cast<std::size_t>(id)]] = id;
  for (const auto& [left, right] : merges) {
    const std::string joined =
        std::string(result.token_bytes(left)) + std::string(result.token_bytes(right));
    const auto [place, is_new] = ids.emplace(joined, result.vocab_size());
    if (is_new) result.tokens_.push_back(joined);
    const auto rank = static_cast<std::int32_t>(result.merges_.size());
    result.merge_of_.emplace(key(left, right), Merge{rank, place->second});
    result.merges_.emplace_back(left, right);
  }
  result.end_of_text_ = result.vocab_size();
  result.tokens_.emplace_back();
  return result;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    fail("token id {} is outside the vocabulary of {}", id, vocab_size());
  }
  return tokens_[static_cast<std::size_t>(id)];
}

const Tokenizer::Merge* Tokenizer::find_merge(std::int32_t left, std::int32_t right) const {
  const auto found = merge_of_.find(key(left, right));
  return found == merge_of_.end() ? nullptr : &found->second;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += token_bytes(id);
  return text;
}

std::uint64_t Tokenizer::fingerprint() const {
  std::string all;
  for (const std::string& token : tokens_) all += fmt::format("{}:{},", token.size(), token);
  for (const auto& [left, right] : merges_) all += fmt::format("{} {},", left, right);
  return hash_bytes(all);
}

void Encoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  constexpr std::size_t kMaxRemembered = 64;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(text, begin);
    const std::string_view piece = text.substr(begin, end - begin);
    begin = end;
    if (piece.size() > kMaxRemembered) {
      encode_piece(piece, ids);
      continue;
    }
    if (known_.size() >= kMaxKnownPieces) known_.clear();
    const auto [place, is_new] = known_.try_emplace(std::string(piece));
    if (is_new) encode_piece(piece, place->second);
    ids.insert(ids.end(), place->second.begin(), place->second.end());
  }
}

void Encoder::encode_piece(std::string_view piece, std::vector<std::int32_t>& ids) const {
  const auto n = static_cast<std::int32_t>(piece.size());
  std::vector<Symbol> symbols(piece.size());
  for (std::int32_t i = 0; i < n; ++i) {
    const auto byte = static_cast<unsigned char>(piece[static_cast<std::size_t>(i)]);
    symbols[static_cast<std::size_t>(i)] = {tokenizer_.byte_token(byte), i - 1,
                                            i + 1 < n ? i + 1 : -1};
  }
  Queue queue;
  for (std::int32_t i = 0; i + 1 < n; ++i) offer(tokenizer_, symbols, i, queue);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<std::size_t>(best.left)];
    // An entry is out of date when a neighbour has been merged since.
    if (left.id != best.left_id || left.next < 0) continue;
    Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    if (right.id != best.right_id) continue;
    left.id = tokenizer_.find_merge(best.left_id, best.right_id)->merged;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = best.left;
    offer(tokenizer_, symbols, left.previous, queue);
    offer(tokenizer_, symbols, best.left, queue);
  }
  for (std::int32_t i = 0; i >= 0 && n > 0; i = symbols[static_cast<std::size_t>(i)].next) {
    ids.push_back(symbols[static_cast<std::size_t>(i)].id);
  }
}

std::string StreamDecoder::add(std::int32_t id) {
  pending_ += tokenizer_.token_bytes(id);
  std::size_t whole = 0;
  while (whole < pending_.size()) {
    bool incomplete = false;
    const int length = utf8_length(std::string_view(pending_).substr(whole), &incomplete);
    if (incomplete) break;
    whole += length == 0 ? 1 : static_cast<std::size_t>(length);
  }
  std::string text = pending_.substr(0, whole);
  pending_.erase(0, whole);
  return text;
}

}  // namespace headloom
