#include "data/token_cache.h"

#include <cstring>

#include "base/error.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t bytes_per_token;
  std::uint64_t count;
  std::uint64_t fingerprint;
  std::uint64_t text_bytes;
  std::uint64_t finished;  ///< 1 once everything else is on disk
};
static_assert(sizeof(Header) == 48);

constexpr char kMagic[9] = "HLTOKENS";
constexpr std::uint32_t kVersion = 2;

/// Reads and checks the header against the file's size.
bool read_header(std::string_view bytes, Header* header) {
  if (bytes.size() < sizeof(Header)) return false;
  std::memcpy(header, bytes.data(), sizeof(Header));
  const bool known = std::memcmp(header->magic, kMagic, 8) == 0 && header->version == kVersion &&
                     (header->bytes_per_token == 2 || header->bytes_per_token == 4) &&
                     header->finished == 1;
  return known && header->count == (bytes.size() - sizeof(Header)) / header->bytes_per_token &&
         (bytes.size() - sizeof(Header)) % header->bytes_per_token == 0;
}

void write_tokens(FileWriter& writer, const std::vector<std::int32_t>& ids, std::uint32_t bytes) {
  if (bytes == 4) {
    writer.write(ids.data(), ids.size() * sizeof(std::int32_t));
    return;
  }
  const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
  writer.write(narrow.data(), narrow.size() * sizeof(std::uint16_t));
}

}  // namespace

TokenCache::TokenCache(const fs::path& path, std::int64_t vocab_size) : file_(path) {
  Header header{};
  if (!read_header(file_.text(), &header)) {
    fail("{}: not a whole token cache; remove it and it will be made again", path.string());
  }
  count_ = static_cast<std::int64_t>(header.count);
  text_bytes_ = static_cast<std::int64_t>(header.text_bytes);
  const std::byte* data = file_.bytes().data() + sizeof(Header);
  if (header.bytes_per_token == 2) {
    narrow_ = reinterpret_cast<const std::uint16_t*>(data);
  } else {
    wide_ = reinterpret_cast<const std::uint32_t*>(data);
  }
  for (std::int64_t i = 0; i < count_; ++i) {
    if ((*this)[i] < 0 || (*this)[i] >= vocab_size) {
      fail("{}: token id {} at offset {} is outside the vocabulary of {}", path.string(),
           (*this)[i], sizeof(Header) + static_cast<std::uint64_t>(i) * header.bytes_per_token,
           vocab_size);
    }
  }
}

bool TokenCache::is_current(const fs::path& path, std::uint64_t fingerprint) {
  if (!fs::exists(path)) return false;
  const MappedFile file(path);
  Header header{};
  return read_header(file.text(), &header) && header.fingerprint == fingerprint;
}

void TokenCache::build(const fs::path& path, const Corpus& corpus, const Tokenizer& tokenizer,
                       std::uint64_t fingerprint) {
  fs::path temporary = path;
  temporary += ".tmp";
  FileWriter writer(temporary);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(header.magic));
  header.version = kVersion;
  header.bytes_per_token = tokenizer.vocab_size() <= 65536 ? 2 : 4;
  header.fingerprint = fingerprint;
  writer.write(&header, sizeof(header));
  Encoder encoder(tokenizer);
  std::vector<std::int32_t> ids;
  for_each_part(corpus, [&](std::string_view part, bool last) {
    ids.clear();
    encoder.encode(part, ids);
    if (last) ids.push_back(tokenizer.end_of_text());
    write_tokens(writer, ids, header.bytes_per_token);
    header.count += ids.size();
    header.text_bytes += part.size();
  });
  header.finished = 1;
  writer.write_at(0, &header, sizeof(header));
  writer.close();
  fs::rename(temporary, path);
  sync_directory(path.parent_path());
}

std::uint64_t token_fingerprint(std::uint64_t corpus, const Tokenizer& tokenizer) {
  return hash_bytes(fmt::format("{:x} {:x}", corpus, tokenizer.fingerprint()));
}

}  // namespace headloom
