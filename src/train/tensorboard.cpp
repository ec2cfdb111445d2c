#include "train/tensorboard.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"

namespace headloom {
namespace {

/// The reversed Castagnoli polynomial, a byte at a time.
std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[byte] = crc;
  }
  return table;
}

/// TFRecord rotates and shifts its checksums, so that a checksum of a checksum is not trivial.
std::uint32_t masked_crc(const void* data, std::size_t size) {
  const std::uint32_t crc = crc32c(data, size);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

// Protocol buffers, as far as an Event needs them: a tag is field * 8 + wire type.
void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

template <class Number>
void put_fixed(std::string& to, int tag, Number value) {
  put_varint(to, static_cast<std::uint64_t>(tag));
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_bytes(std::string& to, int field, const std::string& bytes) {
  put_varint(to, static_cast<std::uint64_t>(field * 8 + 2));
  put_varint(to, bytes.size());
  to += bytes;
}

double wall_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// Event{wall_time = 1, step = 2}, to be followed by its content.
std::string event_head(std::int64_t step) {
  std::string event;
  put_fixed(event, 1 * 8 + 1, wall_time());
  put_varint(event, 2 * 8 + 0);
  put_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t size) {
  static const std::array<std::uint32_t, 256> kTable = crc_table();
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint32_t crc = ~0U;
  for (std::size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ kTable[(crc ^ bytes[i]) & 0xFF];
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first_step) {
  std::filesystem::create_directories(folder);
  path_ = folder / fmt::format("events.out.tfevents.{:010}.{:08}.headloom",
                               static_cast<std::int64_t>(wall_time()), first_step);
  file_ = std::fopen(path_.c_str(), "wb");
  if (file_ == nullptr) fail("cannot create {}: {}", path_.string(), system_message(errno));
  std::string event = event_head(0);
  put_bytes(event, 3, "brain.Event:2");  // Event.file_version
  write_record(event);
}

EventFile::~EventFile() {
  std::fclose(file_);
}

void EventFile::write(std::int64_t step, const std::map<std::string, double>& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, 1, tag);                                 // Value.tag
    put_fixed(value, 2 * 8 + 5, static_cast<float>(number));  // Value.simple_value
    put_bytes(summary, 1, value);                             // Summary.value
  }
  std::string event = event_head(step);
  put_bytes(event, 5, summary);  // Event.summary
  write_record(event);
}

void EventFile::write_record(const std::string& message) {
  const std::uint64_t length = message.size();
  const std::uint32_t length_crc = masked_crc(&length, sizeof(length));
  const std::uint32_t message_crc = masked_crc(message.data(), message.size());
  std::string record(reinterpret_cast<const char*>(&length), sizeof(length));
  record.append(reinterpret_cast<const char*>(&length_crc), sizeof(length_crc));
  record += message;
  record.append(reinterpret_cast<const char*>(&message_crc), sizeof(message_crc));
  if (std::fwrite(record.data(), 1, record.size(), file_) != record.size() ||
      std::fflush(file_) != 0) {
    fail("cannot write {}: {}", path_.string(), system_message(errno));
  }
}

}  // namespace headloom
