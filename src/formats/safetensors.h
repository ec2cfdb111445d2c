#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"

/// The safetensors format: u64 little-endian header length, JSON header, data.
namespace headloom {

/// A tensor to be written. Shapes: `shape` row-major over the numbers at `data`.
struct TensorToWrite {
  std::string name;
  std::vector<std::int64_t> shape;
  const float* data = nullptr;
};

/// Writes F32 tensors, sorted by name, header padded to a multiple of 8 bytes; durable on return.
/// Returns the XXH3-64 of the file. Errors: file system trouble, with the path.
std::uint64_t write_safetensors(const std::filesystem::path& path,
                                std::vector<TensorToWrite> tensors,
                                const std::map<std::string, std::string>& metadata);

/// One tensor of a file; the bytes stay valid as long as the file object.
struct StoredTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// A safetensors file, mapped and checked whole before anything is handed out.
class SafetensorsFile {
 public:
  /// Errors: kFailed naming the file and what is wrong: truncation, a header that is not valid JSON
  /// or has duplicate keys, dtypes that are unknown, sizes that overflow or do not match, and data
  /// ranges that overlap, leave holes or do not end at the end of the file.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::string_view bytes() const { return file_.text(); }

  /// Copies an F32 tensor out. Errors: missing, or not F32 of exactly this shape.
  void read_f32(const std::string& name, const std::vector<std::int64_t>& shape, float* to) const;

 private:
  void parse(std::string_view header, std::uint64_t data_begin);
  void check_coverage(std::uint64_t data_size) const;

  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace headloom
