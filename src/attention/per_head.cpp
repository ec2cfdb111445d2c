#include "attention/per_head.h"

#include <complex>
#include <vector>

namespace headloom {
namespace {

/// First columns of every small projection inside the fused one: queries, then keys, then values.
std::vector<std::int64_t> projection_columns(const HeadLayout& layout) {
  std::vector<std::int64_t> columns;
  for (std::int64_t h = 0; h < layout.heads; ++h) columns.push_back(layout.query_column(h));
  for (std::int64_t h = 0; h < layout.kv_heads; ++h) columns.push_back(layout.key_column(h));
  for (std::int64_t h = 0; h < layout.kv_heads; ++h) columns.push_back(layout.value_column(h));
  return columns;
}

template <class T>
Heads<T> one_head(const Heads<T>& all, std::int64_t h) {
  Heads<T> one = all;
  one.data = all.at(0, 0, h);
  one.heads = 1;
  return one;
}

/// Turns queries and keys as `how` says, head by head.
template <class T>
void rotate_per_head(const Ops<T>& ops, const SplitHeads<T>& s, Rope<T> how) {
  for (const Heads<T>& all : {s.q, s.k}) {
    for (std::int64_t h = 0; h < all.heads; ++h) {
      how.x = one_head(all, h);
      ops.rope(how);
    }
  }
}

/// Key head `kv` and the query heads that share it, as an attention of their own.
template <class T>
Heads<T> group(const Heads<T>& all, std::int64_t kv, std::int64_t size) {
  Heads<T> some = one_head(all, kv * size);
  some.heads = size;
  return some;
}

}  // namespace

template <class T>
void per_head_forward(const Ops<T>& ops, const AttentionForward<T>& a) {
  const HeadLayout& layout = a.layout;
  const std::int64_t width = layout.head_dim, size = layout.heads / layout.kv_heads;
  for (const std::int64_t column : projection_columns(layout)) {
    ops.gemm({.a = a.x,
              .b = a.weights.qkv.col_range(column, width),
              .c = a.qkv.col_range(column, width),
              .bias = a.weights.qkv_bias != nullptr ? a.weights.qkv_bias + column : nullptr});
  }
  const SplitHeads<T> s = split_heads(a.qkv, a.batch, layout);
  if (a.rope_base != 0) rotate_per_head(ops, s, {.base = a.rope_base});
  const Heads<T> out = concat_heads(a.heads, a.batch, layout.heads, width);
  for (std::int64_t b = 0; b < a.batch; ++b) {
    for (std::int64_t h = 0; h < layout.heads; ++h) {
      const auto slice = [&](const Heads<T>& all, std::int64_t head) {
        Heads<T> one = one_head(all, head);
        one.data = all.at(b, 0, head);
        one.batch = 1;
        return one;
      };
      T* lse = a.lse != nullptr ? a.lse + (b * layout.heads + h) * s.q.seq : nullptr;
      const T* gate = a.tap != nullptr && a.tap->gate != nullptr ? a.tap->gate + h : nullptr;
      ops.attend_forward(
          {slice(s.q, h), slice(s.k, h / size), slice(s.v, h / size), slice(out, h), lse, gate});
    }
  }
  for (std::int64_t h = 0; h < layout.heads; ++h) {
    ops.gemm({.a = a.heads.col_range(h * width, width),
              .b = a.weights.out.row_range(h * width, width),
              .c = a.y,
              .accumulate = h > 0,
              .bias = h == 0 ? a.weights.out_bias : nullptr});
  }
}

template <class T>
void per_head_backward(const Ops<T>& ops, const AttentionBackward<T>& a) {
  const HeadLayout& layout = a.layout;
  const std::int64_t width = layout.head_dim, size = layout.heads / layout.kv_heads;
  for (std::int64_t h = 0; h < layout.heads; ++h) {
    ops.gemm({.a = a.dy,
              .b = a.weights.out.row_range(h * width, width),
              .transpose_b = true,
              .c = a.dheads.col_range(h * width, width)});
    ops.gemm({.a = a.heads.col_range(h * width, width),
              .transpose_a = true,
              .b = a.dy,
              .c = a.dweights.out.row_range(h * width, width),
              .accumulate = true});
  }
  if (a.dweights.out_bias != nullptr) ops.column_sum({a.dy, a.dweights.out_bias});
  const SplitHeads<const T> s = split_heads(a.qkv, a.batch, layout);
  const SplitHeads<T> ds = split_heads(a.dqkv, a.batch, layout);
  const auto out = concat_heads(a.heads, a.batch, layout.heads, width);
  const auto dout = concat_heads(Matrix<const T>(a.dheads), a.batch, layout.heads, width);
  for (std::int64_t b = 0; b < a.batch; ++b) {
    for (std::int64_t kv = 0; kv < layout.kv_heads; ++kv) {
      const auto slice = [&](const auto& all, std::int64_t group_size) {
        auto some = group(all, kv, group_size);
        some.data = all.at(b, 0, kv * group_size);
        some.batch = 1;
        return some;
      };
      // A group's heads are kv * size ... ; gates and their gradients lie like lse's heads.
      const auto part = [&](auto* of_heads, std::int64_t first) {
        return of_heads != nullptr ? of_heads + first : nullptr;
      };
      const HeadTap<T> tap =
          a.tap != nullptr ? HeadTap<T>{a.tap->gate, a.tap->dgate} : HeadTap<T>{};
      ops.attend_backward({.q = slice(s.q, size),
                           .k = slice(s.k, 1),
                           .v = slice(s.v, 1),
                           .out = slice(out, size),
                           .dout = slice(dout, size),
                           .lse = a.lse + (b * layout.heads + kv * size) * s.q.seq,
                           .dq = slice(ds.q, size),
                           .dk = slice(ds.k, 1),
                           .dv = slice(ds.v, 1),
                           .gate = part(tap.gate, kv * size),
                           .dgate = part(tap.dgate, b * layout.heads + kv * size)});
    }
  }
  if (a.rope_base != 0) rotate_per_head(ops, ds, {.base = a.rope_base, .inverse = true});
  bool first = true;
  for (const std::int64_t column : projection_columns(layout)) {
    const Matrix<const T> dproj = Matrix<const T>(a.dqkv).col_range(column, width);
    ops.gemm({.a = dproj,
              .b = a.weights.qkv.col_range(column, width),
              .transpose_b = true,
              .c = a.dx,
              .accumulate = !first});
    ops.gemm({.a = a.x,
              .transpose_a = true,
              .b = dproj,
              .c = a.dweights.qkv.col_range(column, width),
              .accumulate = true});
    first = false;
  }
  if (a.dweights.qkv_bias != nullptr) ops.column_sum({a.dqkv, a.dweights.qkv_bias});
}

#define HEADLOOM_INSTANTIATE(T)                                                 \
  template void per_head_forward<T>(const Ops<T>&, const AttentionForward<T>&); \
  template void per_head_backward<T>(const Ops<T>&, const AttentionBackward<T>&);
HEADLOOM_INSTANTIATE(float)
HEADLOOM_INSTANTIATE(double)
HEADLOOM_INSTANTIATE(std::complex<double>)
#undef HEADLOOM_INSTANTIATE

}  // namespace headloom
