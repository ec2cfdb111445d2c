#pragma once

#include "ops/backend.h"

/// Step 5: the output projection blends the heads, Y = concat Wo. It is the only place where heads
/// meet.
namespace headloom {

/// Shapes: heads [B*T, NH*HS]; weight [NH*HS,C]; bias [C] or null; y [B*T,C]. Writes: y (=).
template <class T>
struct MixForward {
  Matrix<const T> heads;
  Matrix<const T> weight;
  const T* bias = nullptr;
  Matrix<T> y;
};

/// dheads = dY Wo^T, dWo += heads^T dY, dbias += column sums of dY.
/// Writes: dheads (=); dweight, dbias (+=), dbias null when there is no bias.
template <class T>
struct MixBackward {
  Matrix<const T> heads;
  Matrix<const T> weight;
  Matrix<const T> dy;
  Matrix<T> dheads;
  Matrix<T> dweight;
  T* dbias = nullptr;
};

template <class T>
void mix_forward(const Ops<T>& ops, const MixForward<T>& m);
template <class T>
void mix_backward(const Ops<T>& ops, const MixBackward<T>& m);

}  // namespace headloom
