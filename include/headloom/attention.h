#pragma once

#include <cstdint>

/// Causal multi-head attention by itself, for programs that bring their own model.
namespace headloom {

/// Sizes, and how far positions lie apart in memory. Queries and outputs are [batch, seq, heads,
/// head_dim], keys and values [batch, seq, kv_heads, head_dim]; a position's heads lie side by
/// side. With fused activations [q | k | v], give the width of the fused row as the strides.
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t seq = 1;
  std::int64_t heads = 1;
  std::int64_t head_dim = 64;
  std::int64_t kv_heads = 0;   ///< heads share key/value heads in groups; 0: as many as heads
  std::int64_t q_stride = 0;   ///< floats from one position to the next; 0: heads * head_dim
  std::int64_t kv_stride = 0;  ///< likewise of keys and values; 0: kv_heads * head_dim
};

/// out = softmax(q k^T / sqrt(head_dim), causal) v for every (batch, head).
///
/// Writes: out [batch, seq, heads, head_dim] (=, dense); lse [batch, heads, seq] (=), the
/// natural-log sum of exponentials of each row's scores, which backward needs; null when it is not
/// wanted. Errors: headloom::Error naming the tensor and the shapes. Threads: OpenMP's; bitwise
/// repeatable.
void causal_attention_forward(const AttentionShape& shape, const float* q, const float* k,
                              const float* v, float* out, float* lse);

/// Gradients of causal_attention_forward.
///
/// Reads out and lse as forward left them, dout dense like out. Writes: dq, dk, dv (=), with the
/// strides of q, k and v.
void causal_attention_backward(const AttentionShape& shape, const float* q, const float* k,
                               const float* v, const float* out, const float* dout,
                               const float* lse, float* dq, float* dk, float* dv);

}  // namespace headloom
