#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tensor/device.h"

namespace headloom {

/// Hands out consecutive pieces of one allocation. A layout function runs twice over it: first on a
/// measuring arena, which only counts, then on a real one of that size. So the memory of a model is
/// known before anything is allocated, and nothing is allocated after.
class Arena {
 public:
  /// Measures: `take` returns null and counts.
  explicit Arena(const Device& device = host_device()) : device_(&device) {}
  /// Owns `bytes` of zeroed memory of the device.
  /// Errors: kFailed with the number of bytes when there is no such memory.
  explicit Arena(std::size_t bytes, const Device& device = host_device());

  /// Room for `count` numbers, aligned to 64 bytes.
  template <class T>
  T* take(std::int64_t count) {
    return static_cast<T*>(take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  std::size_t used() const { return used_; }
  const Device& device() const { return *device_; }

 private:
  struct Release {
    const Device* device;
    std::size_t size;
    void operator()(std::byte* data) const { device->release(data, size); }
  };

  void* take_bytes(std::size_t bytes);

  const Device* device_;
  std::unique_ptr<std::byte, Release> data_;
  std::size_t used_ = 0;
};

/// Runs layout(arena) on a measuring arena, then on a real one of that size, and returns the
/// latter.
template <class Layout>
Arena arrange(Layout&& layout, const Device& device = host_device()) {
  Arena measure(device);
  layout(measure);
  Arena arena(measure.used(), device);
  layout(arena);
  return arena;
}

}  // namespace headloom
