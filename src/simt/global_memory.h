#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

/// The global memory of the emulated device: a queue of work, and a watch on every access of a
/// kernel to memory that was named to it.
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
/// Part of watched memory that kernels may touch.
void note_tensor(const void* data, std::size_t bytes);
/// For tests: memory of the CPU as one watched tensor, as long as this lives.
class WatchedTensor {
 public:
  template <class T>
  explicit WatchedTensor(const std::vector<T>& x) : data_(x.data()) {
    watch_memory(x.data(), x.size() * sizeof(T));
    note_tensor(x.data(), x.size() * sizeof(T));
  }
  WatchedTensor(const WatchedTensor&) = delete;
  WatchedTensor& operator=(const WatchedTensor&) = delete;
  ~WatchedTensor() { forget_memory(data_); }

 private:
  const void* data_;
};
/// False in builds whose kernels are compiled without the calls (sanitizers bring their own).
bool watches_global_memory();

/// Work put into the queue: done now, or kept where set_recording says.
void submit(std::function<void()> work);
void set_recording(std::vector<std::function<void()>>* recording);
const std::vector<std::function<void()>>* recording();
/// Who runs work that is done now, for a device whose memory must be opened first.
void set_runner(void (*runner)(const std::function<void()>& work));

/// A launch begins: accesses of its blocks are compared with each other from here on.
void begin_launch();

}  // namespace headloom::simt::emu
