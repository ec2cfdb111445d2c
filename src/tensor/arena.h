#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace headloom {

/// Hands out consecutive pieces of one allocation. A layout function runs twice over it: first on a
/// measuring arena, which only counts, then on a real one of that size. So the memory of a model is
/// known before anything is allocated, and nothing is allocated after.
class Arena {
 public:
  /// Measures: `take` returns null and counts.
  Arena() = default;
  /// Owns `bytes` of zeroed memory, on huge pages where the system gives them.
  /// Errors: kFailed with the number of bytes when the system has no such memory.
  explicit Arena(std::size_t bytes);

  /// Room for `count` numbers, aligned to 64 bytes.
  template <class T>
  T* take(std::int64_t count) {
    return static_cast<T*>(take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  std::size_t used() const { return used_; }

 private:
  struct Unmap {
    std::size_t size;
    void operator()(std::byte* data) const;
  };

  void* take_bytes(std::size_t bytes);

  std::unique_ptr<std::byte, Unmap> data_;
  std::size_t used_ = 0;
};

/// Runs layout(arena) on a measuring arena, then on a real one of that size, and returns the
/// latter.
template <class Layout>
Arena arrange(Layout&& layout) {
  Arena measure;
  layout(measure);
  Arena arena(measure.used());
  layout(arena);
  return arena;
}

}  // namespace headloom
