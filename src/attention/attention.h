#pragma once

#include <functional>

#include "attention/concat.h"
#include "attention/mix.h"
#include "attention/project.h"
#include "attention/split.h"

/// Multi-head attention as its five steps: project, split, attend, concat, mix.
namespace headloom {

/// Keys and values of the positions seen so far, for decoding. Shapes: [B, capacity, KVH, HS] each,
/// with any strides; fastest when the positions of a head lie together.
template <class T>
struct KvCache {
  Heads<T> k;
  Heads<T> v;
  std::int64_t length = 0;  ///< positions already in the cache; forward writes the next ones

  explicit operator bool() const { return k.data != nullptr; }
};

/// Weights of one attention layer, or their gradients. Biases are null where there are none.
/// Shapes: qkv [C, fused_width]; qkv_bias [fused_width]; out [NH*HS, C]; out_bias [C].
template <class T>
struct AttentionWeights {
  Matrix<T> qkv;
  T* qkv_bias = nullptr;
  Matrix<T> out;
  T* out_bias = nullptr;
};

/// A hold on the heads of one layer, for experiments and measurements. What is left out costs
/// nothing and changes nothing.
template <class T>
struct HeadTap {
  const T* gate = nullptr;  ///< [NH] factors of the heads' outputs
  T* dgate = nullptr;       ///< [B,NH] gets the loss's gradient by them, sequence by sequence
  /// Called between attend and mix with what attend read and wrote; may write other outputs, in
  /// passes that no backward follows.
  std::function<void(const SplitHeads<const T>& inputs, const Heads<T>& out)> edit;
  /// Called on the way back with the heads' outputs and their gradient, [B,T,NH,HS] each.
  std::function<void(const Heads<const T>& out, const Heads<const T>& dout)> see_gradient;
};

/// Attention over B sequences of T positions.
///
/// Shapes: x, y [B*T,C]; qkv [B*T, fused_width]; heads [B*T, NH*HS]; lse [B,NH,T].
/// Writes: qkv, heads, lse, y (=); the first three are what backward reads. With a cache, the new
/// keys and values are appended to it and the queries attend to all of it.
template <class T>
struct AttentionForward {
  HeadLayout layout;
  double rope_base = 0;  ///< rotates queries and keys by their positions; 0: does not
  std::int64_t batch = 0;
  Matrix<const T> x;
  AttentionWeights<const T> weights;
  Matrix<T> qkv;
  Matrix<T> heads;
  T* lse = nullptr;
  Matrix<T> y;
  KvCache<T> cache;
  const HeadTap<T>* tap = nullptr;
};

/// Gradients of AttentionForward without a cache.
/// Writes: dheads, dqkv, dx (=); dweights (+=).
template <class T>
struct AttentionBackward {
  HeadLayout layout;
  double rope_base = 0;
  std::int64_t batch = 0;
  Matrix<const T> x;
  AttentionWeights<const T> weights;
  Matrix<const T> qkv;
  Matrix<const T> heads;
  const T* lse = nullptr;
  Matrix<const T> dy;
  Matrix<T> dheads;
  Matrix<T> dqkv;
  Matrix<T> dx;
  AttentionWeights<T> dweights;
  const HeadTap<T>* tap = nullptr;
};

template <class T>
void attention_forward(const Ops<T>& ops, const AttentionForward<T>& a);
template <class T>
void attention_backward(const Ops<T>& ops, const AttentionBackward<T>& a);

}  // namespace headloom
