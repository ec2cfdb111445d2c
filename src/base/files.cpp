#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace headloom {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

void write_all(int descriptor, const char* data, std::size_t size,
               const std::filesystem::path& path) {
  while (size > 0) {
    const ssize_t written = ::write(descriptor, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write {}: {}", path.string(), system_message(errno));
    data += written;
    size -= static_cast<std::size_t>(written);
  }
}

int open_for_reading(const std::filesystem::path& path, std::size_t* size) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail("cannot open {}: {}", path.string(), system_message(errno));
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    fail("cannot read {}: not a regular file", path.string());
  }
  *size = static_cast<std::size_t>(info.st_size);
  return descriptor;
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  return std::string(MappedFile(path).text());
}

void write_file_atomic(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  FileWriter writer(temporary);
  writer.write(content);
  writer.close();
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    fail("cannot rename {} to {}: {}", temporary.string(), path.string(), system_message(errno));
  }
  sync_directory(path.parent_path());
}

FileWriter::FileWriter(const std::filesystem::path& path)
    : path_(path), hash_state_(XXH3_createState()) {
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(hash_state_));
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    const int cause = errno;
    XXH3_freeState(static_cast<XXH3_state_t*>(hash_state_));
    fail("cannot create {}: {}", path.string(), system_message(cause));
  }
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
  XXH3_freeState(static_cast<XXH3_state_t*>(hash_state_));
}

void FileWriter::write(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  XXH3_64bits_update(static_cast<XXH3_state_t*>(hash_state_), bytes, size);
  size_ += size;
  if (buffer_.size() + size <= kBufferBytes) {
    buffer_.append(bytes, size);
    return;
  }
  flush();
  write_all(descriptor_, bytes, size, path_);
}

void FileWriter::write_at(std::uint64_t offset, const void* data, std::size_t size) {
  flush();
  const ssize_t written = ::pwrite(descriptor_, data, size, static_cast<off_t>(offset));
  if (written != static_cast<ssize_t>(size)) {
    fail("cannot write {} at {}: {}", path_.string(), offset, system_message(errno));
  }
}

void FileWriter::flush() {
  write_all(descriptor_, buffer_.data(), buffer_.size(), path_);
  buffer_.clear();
}

void FileWriter::close() {
  flush();
  if (::fsync(descriptor_) != 0) {
    fail("cannot make {} durable: {}", path_.string(), system_message(errno));
  }
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) {
    fail("cannot close {}: {}", path_.string(), system_message(errno));
  }
}

std::uint64_t FileWriter::hash() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(hash_state_));
}

void sync_directory(const std::filesystem::path& directory) {
  const std::filesystem::path name = directory.empty() ? "." : directory;
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("cannot open {}: {}", name.string(), system_message(errno));
  // Some file systems cannot fsync a directory (EINVAL); they order renames by themselves.
  const bool failed = ::fsync(descriptor) != 0 && errno != EINVAL;
  const int cause = errno;
  ::close(descriptor);
  if (failed) fail("cannot make {} durable: {}", name.string(), system_message(cause));
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int descriptor = open_for_reading(path, &size_);
  if (size_ > 0) {
    void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) {
      const int cause = errno;
      ::close(descriptor);
      fail("cannot map {}: {}", path.string(), system_message(cause));
    }
    data_ = static_cast<const std::byte*>(data);
  }
  ::close(descriptor);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::release(std::span<const std::byte> part) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(part.data() - data_);
  const std::size_t begin = offset / page * page, end = (offset + part.size()) / page * page;
  // Only a hint: when the system does not take it, the memory merely stays.
  if (end > begin) {
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
  }
}

FileLock::FileLock(const std::filesystem::path& path, const std::string& what) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("cannot open {}: {}", path.string(), system_message(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int cause = errno;
    ::close(descriptor_);
    if (cause != EWOULDBLOCK) fail("cannot lock {}: {}", path.string(), system_message(cause));
    fail_usage("{}: {}", path.string(), what);
  }
}

FileLock::~FileLock() {
  ::close(descriptor_);
}

std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string hash_hex(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace headloom
