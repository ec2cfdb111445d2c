#include <algorithm>

#include "base/threads.h"
#include "ops/cpu.h"

namespace headloom {

void copy_heads_cpu(const CopyHeads<float>& c) {
  const auto copy_head = [&](std::int64_t task) {
    const std::int64_t b = task / c.from.heads, h = task % c.from.heads;
    for (std::int64_t t = 0; t < c.from.seq; ++t) {
      std::copy_n(c.from.at(b, t, h), c.from.head_dim, c.to.at(b, t, h));
    }
  };
  const std::int64_t tasks = c.from.batch * c.from.heads;
  if (c.from.seq > 1) return parallel_tasks(tasks, copy_head);
  // A decoded token is copied before other threads would have woken up.
  for (std::int64_t task = 0; task < tasks; ++task) copy_head(task);
}

}  // namespace headloom
