#pragma once

#include <cstdint>
#include <utility>

namespace headloom {

/// Number of threads that parallel loops use: OMP_NUM_THREADS or the cores that this process may
/// run on, as OpenMP decides.
int thread_count();

/// Sets that number for what follows. Units: count >= 1.
void set_thread_count(int count);

/// The half-open range of task `part` when `n` tasks are cut into `parts` nearly equal runs.
inline std::pair<std::int64_t, std::int64_t> slice(std::int64_t n, int part, int parts) {
  return {n * part / parts, n * (part + 1) / parts};
}

/// Calls body(begin, end, part) once per thread with the `part`-th slice of [0, n). The cut depends
/// only on n and the thread count, so results that are combined in the order of `part` repeat
/// bitwise.
template <class Body>
void parallel_slices(std::int64_t n, Body&& body) {
  const int parts = static_cast<int>(n < thread_count() ? n : thread_count());
  if (parts <= 1) {
    if (n > 0) body(std::int64_t{0}, n, 0);
    return;
  }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int part = 0; part < parts; ++part) {
    const auto [begin, end] = slice(n, part, parts);
    body(begin, end, part);
  }
}

/// Calls body(i) for every i in [0, n), handed out one by one: for few tasks of unequal length.
/// The result must not depend on which thread runs which task.
template <class Body>
void parallel_tasks(std::int64_t n, Body&& body) {
  if (n <= 1) {  // A team of one would be made and thrown away each time.
    if (n == 1) body(std::int64_t{0});
    return;
  }
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t i = 0; i < n; ++i) body(i);
}

}  // namespace headloom
