#pragma once

#include "attention/head_layout.h"
#include "ops/check.h"

/// Step 2: the split into heads. [B*T, fused_width] is seen as three tensors [B,T,heads,HS]; one
/// head is one strided slice, and nothing is copied.
namespace headloom {

template <class T>
struct SplitHeads {
  Heads<T> q;  ///< [B,T,NH,HS]
  Heads<T> k;  ///< [B,T,KVH,HS]
  Heads<T> v;  ///< [B,T,KVH,HS]
};

/// Views of the three parts of `qkv`. Shapes: qkv [batch * seq, fused_width].
template <class T>
SplitHeads<T> split_heads(Matrix<T> qkv, std::int64_t batch, const HeadLayout& layout) {
  check_matrix("split_heads", "qkv", qkv, qkv.rows, layout.fused_width());
  if (batch < 1 || qkv.rows % batch != 0) {
    fail("split_heads: {} rows are no multiple of {} sequences", qkv.rows, batch);
  }
  const std::int64_t seq = qkv.rows / batch;
  const auto part = [&](std::int64_t column, std::int64_t heads) {
    return Heads<T>(qkv.data + column, batch, seq, heads, layout.head_dim, seq * qkv.stride,
                    qkv.stride);
  };
  return {part(layout.query_column(0), layout.heads), part(layout.key_column(0), layout.kv_heads),
          part(layout.value_column(0), layout.kv_heads)};
}

/// Queries and keys of `qkv` as one tensor [B,T,NH+KVH,HS]: what rotary positions turn.
template <class T>
Heads<T> queries_and_keys(const SplitHeads<T>& s) {
  Heads<T> both = s.q;
  both.heads += s.k.heads;
  return both;
}

}  // namespace headloom
