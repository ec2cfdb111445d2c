#include "headloom/attention.h"

#include "ops/backend.h"

namespace headloom {
namespace {

/// A public shape as views of the op.
class Views {
 public:
  explicit Views(const AttentionShape& s) : s_(s) {
    if (s_.kv_heads == 0) s_.kv_heads = s_.heads;
    if (s_.q_stride == 0) s_.q_stride = s_.heads * s_.head_dim;
    if (s_.kv_stride == 0) s_.kv_stride = s_.kv_heads * s_.head_dim;
  }
  template <class T>
  Heads<T> q(T* data) const {
    return {data, s_.batch, s_.seq, s_.heads, s_.head_dim, s_.seq * s_.q_stride, s_.q_stride};
  }
  template <class T>
  Heads<T> kv(T* data) const {
    return {data, s_.batch, s_.seq, s_.kv_heads, s_.head_dim, s_.seq * s_.kv_stride, s_.kv_stride};
  }
  template <class T>
  Heads<T> dense(T* data) const {
    const std::int64_t width = s_.heads * s_.head_dim;
    return {data, s_.batch, s_.seq, s_.heads, s_.head_dim, s_.seq * width, width};
  }

 private:
  AttentionShape s_;
};

}  // namespace

void causal_attention_forward(const AttentionShape& shape, const float* q, const float* k,
                              const float* v, float* out, float* lse) {
  const Views views(shape);
  cpu_ops().attend_forward({views.q(q), views.kv(k), views.kv(v), views.dense(out), lse});
}

void causal_attention_backward(const AttentionShape& shape, const float* q, const float* k,
                               const float* v, const float* out, const float* dout,
                               const float* lse, float* dq, float* dk, float* dv) {
  const Views views(shape);
  cpu_ops().attend_backward({views.q(q), views.kv(k), views.kv(v), views.dense(out),
                             views.dense(dout), lse, views.q(dq), views.kv(dk), views.kv(dv)});
}

}  // namespace headloom
