#pragma once

#include "ops/embed.h"

namespace headloom {

template <class T>
void embed_forward_ref(const EmbedForward<T>& e) {
  check_ids("embed_forward", e.ids, e.y.rows, e.token_table.rows);
  for (std::int64_t r = 0; r < e.y.rows; ++r) {
    for (std::int64_t c = 0; c < e.y.cols; ++c) {
      e.y(r, c) = e.token_table(e.ids[r], c);
      if (e.position_table) e.y(r, c) += e.position_table(e.first_position + r % e.seq, c);
    }
  }
}

template <class T>
void embed_backward_ref(const EmbedBackward<T>& e) {
  check_ids("embed_backward", e.ids, e.dy.rows, e.dtoken_table.rows);
  for (std::int64_t r = 0; r < e.dy.rows; ++r) {
    for (std::int64_t c = 0; c < e.dy.cols; ++c) {
      e.dtoken_table(e.ids[r], c) += e.dy(r, c);
      if (e.dposition_table) e.dposition_table(r % e.seq, c) += e.dy(r, c);
    }
  }
}

}  // namespace headloom
