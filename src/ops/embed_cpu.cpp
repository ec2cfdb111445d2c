#include <algorithm>

#include "base/threads.h"
#include "ops/cpu.h"

/// Additions of whole rows, which the compiler vectorises by itself.
namespace headloom {
namespace {

void add_row(const float* from, std::int64_t n, float* to) {
  for (std::int64_t c = 0; c < n; ++c) to[c] += from[c];
}

}  // namespace

void embed_forward_cpu(const EmbedForward<float>& e) {
  check_ids("embed_forward", e.ids, e.y.rows, e.token_table.rows);
  parallel_slices(e.y.rows, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::copy_n(e.token_table.row(e.ids[r]), e.y.cols, e.y.row(r));
      if (!e.position_table) continue;
      add_row(e.position_table.row(e.first_position + r % e.seq), e.y.cols, e.y.row(r));
    }
  });
}

void embed_backward_cpu(const EmbedBackward<float>& e) {
  check_ids("embed_backward", e.ids, e.dy.rows, e.dtoken_table.rows);
  // A thread owns columns, not rows: equal tokens then meet in one thread, in the order of the
  // batch.
  parallel_slices(e.dy.cols, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = 0; r < e.dy.rows; ++r) {
      const float* dy = e.dy.row(r) + begin;
      add_row(dy, end - begin, e.dtoken_table.row(e.ids[r]) + begin);
      if (!e.dposition_table) continue;
      add_row(dy, end - begin, e.dposition_table.row(r % e.seq) + begin);
    }
  });
}

}  // namespace headloom
