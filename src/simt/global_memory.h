#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

/// A watch on every access of a kernel to global memory that was named to it.
///
/// Kernels use plain pointers for global memory, so that nvcc sees plain pointers. Under the
/// emulation they are compiled with calls at every load and store, the ones that thread sanitizers
/// use, and this answers them (global_memory.cpp). Reported, with kernel, block and thread:
///   - an access outside of every tensor of the device
///   - two blocks of one launch that meet in the same four bytes, one of them writing; whatever the
///     order in which they run
namespace headloom::simt::emu {

/// From here on the kernels' accesses to these bytes are watched. They must lie in a tensor.
void watch_memory(const void* data, std::size_t bytes);
void forget_memory(const void* data);
bool is_watched(const void* data);
/// Addresses that belong to the device: outside of watched memory, kernels may touch none of them.
void set_device_addresses(const void* begin, std::size_t bytes);
/// Part of watched memory that kernels may touch.
void note_tensor(const void* data, std::size_t bytes);
/// For tests: one watched tensor, with watched memory on both sides of it that is none.
template <class T>
class WatchedArray {
 public:
  explicit WatchedArray(const std::vector<T>& numbers, bool watch = true)
      : count_(numbers.size()), memory_(count_ + 2 * kMargin), watched_(watch) {
    std::copy(numbers.begin(), numbers.end(), memory_.begin() + kMargin);
    if (!watch) return;
    watch_memory(memory_.data(), memory_.size() * sizeof(T));
    note_tensor(data(), count_ * sizeof(T));
  }
  WatchedArray(const WatchedArray&) = delete;
  WatchedArray& operator=(const WatchedArray&) = delete;
  ~WatchedArray() {
    if (watched_) forget_memory(memory_.data());
  }
  T* data() { return memory_.data() + kMargin; }
  std::vector<T> read() const {
    const auto begin = memory_.begin() + kMargin;
    return {begin, begin + static_cast<std::ptrdiff_t>(count_)};
  }

 private:
  static constexpr std::ptrdiff_t kMargin = 1 << 16;  // elements: some rows of any tensor in tests
  std::size_t count_;
  std::vector<T> memory_;
  bool watched_;
};
/// False in builds whose kernels are compiled without the calls (sanitizers bring their own).
bool watches_global_memory();

/// A launch begins: accesses of its blocks are compared with each other from here on.
void begin_launch();

}  // namespace headloom::simt::emu
