#include "formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/fields.h"

namespace headloom {
namespace {

static_assert(std::endian::native == std::endian::little, "the file formats are little-endian");

/// The format's own limit; a longer header is refused on reading and never written.
constexpr std::uint64_t kMaxHeader = 100'000'000;

const std::map<std::string, std::uint64_t> kDtypeBytes = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
    {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
    {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};

std::uint64_t element_count(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t n : shape) count *= static_cast<std::uint64_t>(n);
  return count;
}

/// Parses strictly: nlohmann's parser alone would let a later duplicate key win.
Json parse_strict(std::string_view text, const std::string& file) {
  std::vector<std::set<std::string>> open;
  std::string duplicate;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key &&
        !open.back().insert(parsed.get<std::string>()).second) {
      duplicate = parsed.get<std::string>();
    }
    return true;
  };
  try {
    Json json = Json::parse(text, watch);
    if (!duplicate.empty()) fail("{}: the header has the key {} twice", file, duplicate);
    return json;
  } catch (const Json::exception& error) {
    fail("{}: the header is not valid JSON: {}", file, error.what());
  }
}

std::vector<std::int64_t> read_shape(const Json& entry, const std::string& where) {
  std::vector<std::int64_t> shape;
  for (const Json& n : entry) {
    if (!n.is_number_unsigned() || n.get<std::uint64_t>() > INT64_MAX) {
      fail("{}: the shape {} is not a list of sizes", where, entry.dump());
    }
    shape.push_back(n.get<std::int64_t>());
  }
  return shape;
}

/// Bytes of a tensor, with overflow checked.
std::uint64_t checked_bytes(const std::vector<std::int64_t>& shape, std::uint64_t dtype_bytes,
                            const std::string& where) {
  std::uint64_t bytes = dtype_bytes;
  for (const std::int64_t n : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes)) {
      fail("{}: the shape [{}] overflows", where, fmt::join(shape, ", "));
    }
  }
  return bytes;
}

}  // namespace

std::uint64_t write_safetensors(const std::filesystem::path& path,
                                std::vector<TensorToWrite> tensors,
                                const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorToWrite& a, const TensorToWrite& b) { return a.name < b.name; });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::uint64_t end = offset + element_count(tensor.shape) * sizeof(float);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeader)
    fail("{}: a header of {} bytes is too long", path.string(), text.size());
  FileWriter writer(path);
  const std::uint64_t length = text.size();
  writer.write(&length, sizeof(length));
  writer.write(text);
  for (const TensorToWrite& tensor : tensors) {
    writer.write(tensor.data, element_count(tensor.shape) * sizeof(float));
  }
  writer.close();
  return writer.hash();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
  const std::string_view text = file_.text();
  std::uint64_t length = 0;
  if (text.size() < sizeof(length)) {
    fail("{}: {} bytes are too few for a safetensors file", path.string(), text.size());
  }
  std::memcpy(&length, text.data(), sizeof(length));
  if (length > kMaxHeader || length > text.size() - sizeof(length)) {
    fail("{}: the header of {} bytes does not fit into the file of {}", path.string(), length,
         text.size());
  }
  parse(text.substr(sizeof(length), length), sizeof(length) + length);
  check_coverage(text.size() - sizeof(length) - length);
}

void SafetensorsFile::parse(std::string_view header, std::uint64_t data_begin) {
  if (header.empty() || header[0] != '{') {
    fail("{}: the header does not start with '{{'", path_.string());
  }
  const std::uint64_t data_size = file_.text().size() - data_begin;
  const Json json = parse_strict(header, path_.string());
  for (const auto& [name, entry] : json.items()) {
    const std::string where = fmt::format("{}: tensor {}", path_.string(), name);
    if (name == "__metadata__") {
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) fail("{}: metadata {} is not text", path_.string(), key);
        metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
        !entry.contains("shape") || !entry.contains("data_offsets") ||
        !entry["dtype"].is_string() || !entry["shape"].is_array()) {
      fail("{}: wants dtype, shape and data_offsets, has {}", where, entry.dump());
    }
    StoredTensor tensor{.dtype = entry["dtype"].get<std::string>(),
                        .shape = read_shape(entry["shape"], where),
                        .bytes = {}};
    const auto known = kDtypeBytes.find(tensor.dtype);
    if (known == kDtypeBytes.end()) fail("{}: unknown dtype {}", where, tensor.dtype);
    const std::vector<std::int64_t> range = read_shape(entry["data_offsets"], where);
    if (range.size() != 2 || range[0] > range[1] ||
        static_cast<std::uint64_t>(range[1]) > data_size) {
      fail("{}: data_offsets {} do not fit into {} bytes of data", where,
           entry["data_offsets"].dump(), data_size);
    }
    const std::uint64_t wanted = checked_bytes(tensor.shape, known->second, where);
    if (wanted != static_cast<std::uint64_t>(range[1] - range[0])) {
      fail("{}: {} [{}] needs {} bytes, data_offsets give {}", where, tensor.dtype,
           fmt::join(tensor.shape, ", "), wanted, range[1] - range[0]);
    }
    tensor.bytes = file_.bytes().subspan(data_begin + static_cast<std::uint64_t>(range[0]), wanted);
    tensors_[name] = std::move(tensor);
  }
}

void SafetensorsFile::check_coverage(std::uint64_t data_size) const {
  std::vector<std::span<const std::byte>> ranges;
  for (const auto& [name, tensor] : tensors_) ranges.push_back(tensor.bytes);
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return a.data() != b.data() ? a.data() < b.data() : a.size() < b.size();
  });
  const std::byte* const data = file_.bytes().data() + (file_.bytes().size() - data_size);
  const std::byte* expected = data;
  for (const auto& range : ranges) {
    if (range.data() != expected) {
      fail("{}: the data has a hole or an overlap at offset {}", path_.string(),
           std::min(range.data(), expected) - data);
    }
    expected += range.size();
  }
  const std::uint64_t covered = static_cast<std::uint64_t>(expected - data);
  if (covered != data_size) {
    fail("{}: {} bytes after the last tensor", path_.string(), data_size - covered);
  }
}

void SafetensorsFile::read_f32(const std::string& name, const std::vector<std::int64_t>& shape,
                               float* to) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail("{}: tensor {} is missing", path_.string(), name);
  const StoredTensor& tensor = found->second;
  if (tensor.dtype != "F32" || tensor.shape != shape) {
    fail("{}: tensor {} is {} [{}], wanted F32 [{}]", path_.string(), name, tensor.dtype,
         fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
  }
  if (tensor.bytes.empty()) return;
  std::memcpy(to, tensor.bytes.data(), tensor.bytes.size());
  // The file would otherwise lie in memory twice when it has been read.
  file_.release(tensor.bytes);
}

}  // namespace headloom
