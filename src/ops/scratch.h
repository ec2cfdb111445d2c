#pragma once

#include <cstdint>

#include "tensor/arena.h"

namespace headloom {

/// Whose memory: a task's own, or what the tasks share that a thread starts. Two kinds, because the
/// thread that starts tasks also runs some of them.
enum class Scratch { kTask, kShared };

/// Memory of this thread for `count` floats, aligned to 64 bytes, valid until the thread's next
/// call for the same kind. It grows to the largest request and is then reused, so that steps
/// allocate nothing.
template <Scratch kKind = Scratch::kTask>
float* thread_scratch(std::int64_t count) {
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
