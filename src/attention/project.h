#pragma once

#include "attention/head_layout.h"
#include "ops/backend.h"

/// Step 1: Q = X Wq, K = X Wk, V = X Wv for all heads, as one multiplication with the matrices side
/// by side.
namespace headloom {

/// Shapes: x [B*T,C]; weight [C, fused_width]; bias [fused_width] or null; qkv [B*T, fused_width].
/// Writes: qkv (=).
template <class T>
struct ProjectForward {
  Matrix<const T> x;
  Matrix<const T> weight;
  const T* bias = nullptr;
  Matrix<T> qkv;
};

/// dX = dQKV W^T, dW += X^T dQKV, dbias += column sums of dQKV.
/// Writes: dx (=); dweight, dbias (+=), dbias null when there is no bias.
template <class T>
struct ProjectBackward {
  Matrix<const T> x;
  Matrix<const T> weight;
  Matrix<const T> dqkv;
  Matrix<T> dx;
  Matrix<T> dweight;
  T* dbias = nullptr;
};

template <class T>
void project_forward(const Ops<T>& ops, const ProjectForward<T>& p);
template <class T>
void project_backward(const Ops<T>& ops, const ProjectBackward<T>& p);

}  // namespace headloom
