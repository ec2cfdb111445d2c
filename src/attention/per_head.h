#pragma once

#include "attention/attention.h"

/// The per-head view: each head h has matrices of its own, Wq^h, Wk^h, Wv^h of [C,HS] and Wo^h of
/// [HS,C], and Y = sum_h attend(X Wq^h, X Wk^h, X Wv^h) Wo^h. It is the definition that the fused
/// view is tested against, and a row of the benchmark that shows why fusing wins. The small
/// matrices are slices of the fused ones, so both views read and write the same tensors.
namespace headloom {

/// As attention_forward, with 2 NH + 2 KVH small multiplications. No cache; of a tap only the
/// gates.
template <class T>
void per_head_forward(const Ops<T>& ops, const AttentionForward<T>& a);

/// As attention_backward, head by head.
template <class T>
void per_head_backward(const Ops<T>& ops, const AttentionBackward<T>& a);

}  // namespace headloom
