#pragma once

#include <cstdint>

namespace headloom {

/// How the width of a layer's attention is shared out among heads. The columns of the fused
/// projection are [query heads | key heads | value heads], each head HS columns wide.
struct HeadLayout {
  std::int64_t heads = 0;     ///< NH, query heads
  std::int64_t kv_heads = 0;  ///< KVH, key/value heads
  std::int64_t head_dim = 0;  ///< HS

  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  std::int64_t fused_width() const { return query_width() + 2 * kv_width(); }
  std::int64_t query_column(std::int64_t head) const { return head * head_dim; }
  std::int64_t key_column(std::int64_t head) const { return query_width() + head * head_dim; }
  std::int64_t value_column(std::int64_t head) const {
    return query_width() + kv_width() + head * head_dim;
  }
};

}  // namespace headloom
