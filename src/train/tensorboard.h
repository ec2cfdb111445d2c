#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

namespace headloom {

/// Scalars as a TensorBoard event file in `folder` (`tensorboard --logdir RUN`): TFRecord framing
/// around Event messages. A resumed run opens a new file; TensorBoard joins them by step. Errors:
/// file system trouble, with the path.
class EventFile {
 public:
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void write(std::int64_t step, const std::map<std::string, double>& scalars);

 private:
  void write_record(const std::string& message);

  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

/// CRC-32C (Castagnoli), as TFRecord wants it.
std::uint32_t crc32c(const void* data, std::size_t size);

}  // namespace headloom
