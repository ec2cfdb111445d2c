#include "attention/attention.h"

#include <complex>

#include "attention/host_heads.h"

namespace headloom {
namespace {

/// Appends the new rows to the cache and returns views of everything it then holds.
template <class T>
SplitHeads<const T> through_cache(const Ops<T>& ops, const KvCache<T>& cache,
                                  const SplitHeads<T>& fresh) {
  const std::int64_t seq = fresh.k.seq, total = cache.length + seq;
  if (total > cache.k.seq) {
    fail("attention: {} positions do not fit into a cache of {}", total, cache.k.seq);
  }
  const auto next = [&](Heads<T> place) {
    place.data = place.at(0, cache.length, 0);
    place.seq = seq;
    return place;
  };
  ops.copy_heads({fresh.k, next(cache.k)});
  ops.copy_heads({fresh.v, next(cache.v)});
  SplitHeads<const T> all{fresh.q, cache.k, cache.v};
  all.k.seq = all.v.seq = total;
  return all;
}

/// Shows a tap what attend read and wrote, and lets it write other outputs.
template <class T>
void edit_heads(const Device& device, const HeadTap<T>& tap, const SplitHeads<const T>& s,
                const Heads<T>& out) {
  const HostHeads<const T> q(device, s.q), k(device, s.k), v(device, s.v);
  HostHeads<T> host_out(device, out);
  tap.edit({q.view(), k.view(), v.view()}, host_out.view());
  host_out.write_back();
}

}  // namespace

template <class T>
void attention_forward(const Ops<T>& ops, const AttentionForward<T>& a) {
  project_forward(ops, {a.x, a.weights.qkv, a.weights.qkv_bias, a.qkv});
  const SplitHeads<T> fresh = split_heads(a.qkv, a.batch, a.layout);
  if (a.rope_base != 0) {
    ops.rope({.x = queries_and_keys(fresh), .first_position = a.cache.length, .base = a.rope_base});
  }
  const SplitHeads<const T> s =
      a.cache ? through_cache(ops, a.cache, fresh) : SplitHeads<const T>{fresh.q, fresh.k, fresh.v};
  const Heads<T> out = concat_heads(a.heads, a.batch, a.layout.heads, a.layout.head_dim);
  ops.attend_forward({s.q, s.k, s.v, out, a.lse, a.tap != nullptr ? a.tap->gate : nullptr});
  if (a.tap != nullptr && a.tap->edit) edit_heads(*ops.device, *a.tap, s, out);
  mix_forward(ops, {a.heads, a.weights.out, a.weights.out_bias, a.y});
}

template <class T>
void attention_backward(const Ops<T>& ops, const AttentionBackward<T>& a) {
  mix_backward(ops, {a.heads, a.weights.out, a.dy, a.dheads, a.dweights.out, a.dweights.out_bias});
  const auto concat = [&](auto rows) {
    return concat_heads(rows, a.batch, a.layout.heads, a.layout.head_dim);
  };
  const SplitHeads<const T> s = split_heads(a.qkv, a.batch, a.layout);
  const SplitHeads<T> ds = split_heads(a.dqkv, a.batch, a.layout);
  const Heads<const T> dout = concat(Matrix<const T>(a.dheads));
  if (a.tap != nullptr && a.tap->see_gradient) {
    const HostHeads<const T> seen(*ops.device, concat(a.heads)), dseen(*ops.device, dout);
    a.tap->see_gradient(seen.view(), dseen.view());
  }
  ops.attend_backward({.q = s.q,
                       .k = s.k,
                       .v = s.v,
                       .out = concat(a.heads),
                       .dout = dout,
                       .lse = a.lse,
                       .dq = ds.q,
                       .dk = ds.k,
                       .dv = ds.v,
                       .gate = a.tap != nullptr ? a.tap->gate : nullptr,
                       .dgate = a.tap != nullptr ? a.tap->dgate : nullptr});
  if (a.rope_base != 0) {
    ops.rope({.x = queries_and_keys(ds), .base = a.rope_base, .inverse = true});
  }
  project_backward(ops, {a.x, a.weights.qkv, a.dqkv, a.dx, a.dweights.qkv, a.dweights.qkv_bias});
}

#define HEADLOOM_INSTANTIATE(T)                                                  \
  template void attention_forward<T>(const Ops<T>&, const AttentionForward<T>&); \
  template void attention_backward<T>(const Ops<T>&, const AttentionBackward<T>&);
HEADLOOM_INSTANTIATE(float)
HEADLOOM_INSTANTIATE(double)
HEADLOOM_INSTANTIATE(std::complex<double>)
#undef HEADLOOM_INSTANTIATE

}  // namespace headloom
