#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace headloom {

/// Reads a whole file. Errors: names the path and the cause.
std::string read_file(const std::filesystem::path& path);

/// Writes a file so that a reader sees the old content or the new, never a part: written beside
/// under a temporary name, fsynced, renamed over `path`, directory fsynced.
void write_file_atomic(const std::filesystem::path& path, std::string_view content);

/// A file that is being written from front to back. Nothing is promised until `close` returns.
class FileWriter {
 public:
  /// Errors: as every member, names the path and the cause.
  explicit FileWriter(const std::filesystem::path& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Replaces bytes already written, at an offset from the front.
  void write_at(std::uint64_t offset, const void* data, std::size_t size);
  /// Makes the content durable and closes the file.
  void close();
  /// XXH3-64 of all bytes written in order (write_at is not part of it).
  std::uint64_t hash() const;
  std::uint64_t size() const { return size_; }

 private:
  void flush();

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string buffer_;
  std::uint64_t size_ = 0;
  void* hash_state_;
};

/// Makes a finished rename or removal inside `directory` durable.
void sync_directory(const std::filesystem::path& directory);

/// A file mapped read-only into memory. The file must not be changed in place while it is mapped;
/// replacing it by rename is safe.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  /// Gives back the memory of a part that has been read; it stays readable, at the price of reading
  /// it from the file again.
  void release(std::span<const std::byte> part) const;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Holds a lock file as long as it lives. The system lets go of it with the process, so that a
/// crash leaves nothing behind.
class FileLock {
 public:
  /// Errors: kUsage when another process holds it, naming `path` and what is going on there.
  FileLock(const std::filesystem::path& path, const std::string& what);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// XXH3-64 of a byte range: the checksum and the fingerprint of the project.
std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0);

/// Sixteen hexadecimal digits.
std::string hash_hex(std::uint64_t hash);

}  // namespace headloom
