#pragma once

#include "ops/check.h"

/// Step 4: concatenation. The heads' outputs lie side by side in [B*T, NH*HS]: written there by
/// attend through a view, read from there by mix. Nothing is lost and nothing is mixed.
namespace headloom {

/// The place of every head's output in the concatenated rows.
/// Shapes: rows [batch * seq, heads * head_dim]; the view is [batch, seq, heads, head_dim].
template <class T>
Heads<T> concat_heads(Matrix<T> rows, std::int64_t batch, std::int64_t heads,
                      std::int64_t head_dim) {
  check_matrix("concat_heads", "rows", rows, rows.rows, heads * head_dim);
  if (batch < 1 || rows.rows % batch != 0) {
    fail("concat_heads: {} rows are no multiple of {} sequences", rows.rows, batch);
  }
  const std::int64_t seq = rows.rows / batch;
  return {rows.data, batch, seq, heads, head_dim, seq * rows.stride, rows.stride};
}

}  // namespace headloom
