#include <map>
#include <set>

#include "base/error.h"
#include "base/fields.h"
#include "base/files.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer.h"

namespace headloom {
namespace {

bool is_printable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// Code point of each byte.
std::array<int, 256> code_points() {
  std::array<int, 256> points{};
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    points[static_cast<std::size_t>(byte)] = is_printable(byte) ? byte : next++;
  }
  return points;
}

/// Every code point of the alphabet is below U+0800: one or two bytes.
std::string utf8(int point) {
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
}

/// Sorted objects: the ordered ones of Json search linearly, which a vocabulary is too large for.
using SortedJson = nlohmann::json;

SortedJson parse_json_file(const std::filesystem::path& path) {
  try {
    return SortedJson::parse(MappedFile(path).text());
  } catch (const Json::exception& error) {
    fail("{}: not valid JSON: {}", path.string(), error.what());
  }
}

}  // namespace

std::array<unsigned char, 256> byte_order() {
  std::array<unsigned char, 256> order{};
  std::size_t next = 0;
  for (const bool printable : {true, false}) {
    for (int byte = 0; byte < 256; ++byte) {
      if (is_printable(byte) == printable) order[next++] = static_cast<unsigned char>(byte);
    }
  }
  return order;
}

std::string to_alphabet(std::string_view bytes) {
  static const std::array<int, 256> kPoints = code_points();
  std::string text;
  for (const char byte : bytes) text += utf8(kPoints[static_cast<unsigned char>(byte)]);
  return text;
}

bool from_alphabet(std::string_view text, std::string* bytes) {
  static const std::map<std::string, char, std::less<>> kBytes = [] {
    std::map<std::string, char, std::less<>> table;
    for (int byte = 0; byte < 256; ++byte) {
      table[utf8(code_points()[static_cast<std::size_t>(byte)])] = static_cast<char>(byte);
    }
    return table;
  }();
  bytes->clear();
  while (!text.empty()) {
    const std::size_t length = static_cast<unsigned char>(text[0]) < 0x80 ? 1 : 2;
    const auto found = kBytes.find(text.substr(0, length));
    if (found == kBytes.end()) return false;
    bytes->push_back(found->second);
    text.remove_prefix(std::min(length, text.size()));
  }
  return true;
}

/// Builds a tokenizer out of other programs' files, checking every entry.
class TokenizerReader {
 public:
  explicit TokenizerReader(std::string file) : file_(std::move(file)) {}

  void read_vocab(const SortedJson& vocab) {
    if (!vocab.is_object()) fail("{}: vocab is not an object", file_);
    for (const auto& [text, id] : vocab.items()) {
      std::string bytes;
      const bool special = text == Tokenizer::kEndOfTextName;
      if (!special && !from_alphabet(text, &bytes)) {
        fail("{}: token {} is not written in the byte alphabet", file_, text);
      }
      place(token_id(id, text), bytes, text);
      if (special) result_.end_of_text_ = id.get<std::int32_t>();
    }
  }

  void read_added(const SortedJson& added) {
    for (const SortedJson& token : added) {
      if (!token.contains("id") || !token.contains("content")) {
        fail("{}: added token {} lacks id or content", file_, token.dump());
      }
      const std::string text = token["content"].get<std::string>();
      if (text != Tokenizer::kEndOfTextName) {
        fail("{}: added token {} is not supported; only {} is", file_, text,
             Tokenizer::kEndOfTextName);
      }
      const std::int64_t id = token_id(token["id"], text);
      const auto known = ids_.find(text);
      if (known == ids_.end()) {
        place(id, "", text);
      } else if (known->second != id) {
        fail("{}: {} has the ids {} and {}", file_, text, known->second, id);
      }
      result_.end_of_text_ = static_cast<std::int32_t>(id);
    }
  }

  void read_merge(const std::string& left, const std::string& right) {
    const auto find = [&](const std::string& text) {
      const auto found = ids_.find(text);
      if (found == ids_.end()) {
        fail("{}: merge {} ({} {}) needs the token {}, which is not in the vocabulary", file_,
             result_.merges_.size(), left, right, text);
      }
      return found->second;
    };
    const std::int32_t a = find(left), b = find(right), joined = find(left + right);
    const auto rank = static_cast<std::int32_t>(result_.merges_.size());
    result_.merge_of_.emplace(Tokenizer::key(a, b), Tokenizer::Merge{rank, joined});
    result_.merges_.emplace_back(a, b);
  }

  Tokenizer finish() {
    for (const auto& [text, id] : ids_) {
      const std::string_view bytes = result_.token_bytes(id);
      if (bytes.size() == 1) result_.byte_tokens_[static_cast<unsigned char>(bytes[0])] = id;
    }
    for (int byte = 0; byte < Tokenizer::kByteTokens; ++byte) {
      if (result_.byte_tokens_[static_cast<std::size_t>(byte)] < 0) {
        fail("{}: no token for byte {}", file_, byte);
      }
    }
    if (ids_.size() != result_.tokens_.size()) {
      fail("{}: {} tokens but ids up to {}", file_, ids_.size(), result_.tokens_.size() - 1);
    }
    if (result_.end_of_text_ < 0) {
      fail("{}: the vocabulary lacks {}", file_, Tokenizer::kEndOfTextName);
    }
    return std::move(result_);
  }

 private:
  /// Not a mere get: that would convert a number with a fraction, or one beyond every integer.
  std::int64_t token_id(const SortedJson& id, const std::string& text) const {
    if (!id.is_number_integer()) fail("{}: the id of {} is {}", file_, text, id.dump());
    return id.get<std::int64_t>();
  }
  void place(std::int64_t id, const std::string& bytes, const std::string& text) {
    constexpr std::int64_t kMaxVocab = 10'000'000;
    if (id < 0 || id >= kMaxVocab) fail("{}: token {} has id {}", file_, text, id);
    const auto index = static_cast<std::size_t>(id);
    if (result_.tokens_.size() <= index) result_.tokens_.resize(index + 1);
    if (!taken_.insert(index).second)
      fail("{}: token {} has the id {} of another", file_, text, id);
    result_.tokens_[index] = bytes;
    ids_[text] = static_cast<std::int32_t>(id);
  }

  std::string file_;
  Tokenizer result_;
  std::map<std::string, std::int32_t> ids_;
  std::set<std::size_t> taken_;
};

namespace {

Tokenizer load_tokenizer_json(const std::filesystem::path& path) {
  const SortedJson json = parse_json_file(path);
  if (!json.contains("model") || json["model"].value("type", "") != "BPE") {
    fail("{}: not a BPE tokenizer.json", path.string());
  }
  TokenizerReader reader(path.string());
  const SortedJson& model = json["model"];
  if (!model.contains("vocab") || !model.contains("merges")) {
    fail("{}: the model lacks vocab or merges", path.string());
  }
  reader.read_vocab(model["vocab"]);
  if (json.contains("added_tokens")) reader.read_added(json["added_tokens"]);
  for (const SortedJson& merge : model["merges"]) {
    if (merge.is_array() && merge.size() == 2) {
      reader.read_merge(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const std::string text = merge.is_string() ? merge.get<std::string>() : "";
    const std::size_t space = text.find(' ');
    if (space == text.npos) fail("{}: merge {} is no pair", path.string(), merge.dump());
    reader.read_merge(text.substr(0, space), text.substr(space + 1));
  }
  return reader.finish();
}

Tokenizer load_vocab_and_merges(const std::filesystem::path& folder) {
  TokenizerReader reader((folder / "vocab.json").string());
  reader.read_vocab(parse_json_file(folder / "vocab.json"));
  const std::string merges = read_file(folder / "merges.txt");
  for (std::size_t begin = 0; begin < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', begin), merges.size());
    std::string line = merges.substr(begin, end - begin);
    const bool first = begin == 0;
    begin = end + 1;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || (first && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    if (space == line.npos)
      fail("{}: the line {} is no pair", (folder / "merges.txt").string(), line);
    reader.read_merge(line.substr(0, space), line.substr(space + 1));
  }
  return reader.finish();
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  try {
    if (!std::filesystem::is_directory(path)) return load_tokenizer_json(path);
    if (std::filesystem::exists(path / "tokenizer.json")) {
      return load_tokenizer_json(path / "tokenizer.json");
    }
    return load_vocab_and_merges(path);
  } catch (const Json::exception& error) {
    fail("{}: not a tokenizer: {}", path.string(), error.what());
  }
}

void Tokenizer::save(const std::filesystem::path& path) const {
  Json vocab = Json::object();
  for (std::int32_t id = 0; id < vocab_size(); ++id) {
    // At the back, without looking for the key first: every token is there once.
    vocab.get_ref<Json::object_t&>().emplace_back(
        id == end_of_text_ ? std::string(kEndOfTextName) : to_alphabet(token_bytes(id)), id);
  }
  Json merges = Json::array();
  for (const auto& [left, right] : merges_) {
    merges.push_back(to_alphabet(token_bytes(left)) + " " + to_alphabet(token_bytes(right)));
  }
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", Json::array({{{"id", end_of_text_},
                                                    {"content", kEndOfTextName},
                                                    {"single_word", false},
                                                    {"lstrip", false},
                                                    {"rstrip", false},
                                                    {"normalized", false},
                                                    {"special", true}}})},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"vocab", std::move(vocab)},
                       {"merges", std::move(merges)}}}};
  write_file_atomic(path, json.dump(1) + "\n");
}

}  // namespace headloom
