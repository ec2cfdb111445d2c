#pragma once

#include <cstdint>

#include "tensor/arena.h"

namespace headloom {

/// Memory of this thread for `count` floats, aligned to 64 bytes, valid until the thread's next
/// call. It grows to the largest request and is then reused, so that steps allocate nothing.
inline float* thread_scratch(std::int64_t count) {
  thread_local Arena arena;
  thread_local std::int64_t capacity = 0;
  thread_local float* data = nullptr;
  if (count > capacity) {
    arena = Arena(static_cast<std::size_t>(count) * sizeof(float));
    data = arena.take<float>(count);
    capacity = count;
  }
  return data;
}

}  // namespace headloom
