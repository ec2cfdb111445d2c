#pragma once

#include <cstdint>

#include "simt/simt.h"

/// Attention on CUDA: the same mathematics as attend_ref.h, with strides for every tensor, so that
/// heads are slices of the fused projection here too. Plain structs, because kernels take one by
/// value; whoever fills them has checked the shapes.
namespace headloom::cuda {

/// A [B,T,heads,HS] tensor: element (b, t, h, d) stands at b * batch + t * seq + h * head + d.
template <class T>
struct HeadsPointer {
  T* data = nullptr;
  std::int64_t batch = 0, seq = 0, head = 0;  ///< strides, in elements
};

struct AttendSizes {
  int batch = 0, seq = 0, heads = 0, kv_heads = 0;
};

/// Writes: out, lse [B,NH,T] (=). gate [NH] or null.
template <class T>
struct AttendForward {
  AttendSizes sizes;
  float scale = 0;  ///< 1 / sqrt(HS)
  HeadsPointer<const T> q, k, v;
  HeadsPointer<T> out;
  float* lse = nullptr;
  const float* gate = nullptr;
};

/// Writes: dq, dk, dv (=); delta [B,NH,T], scratch for rowsum(dout * out). bf16, 16-byte aligned
/// rows (strides a multiple of 8).
struct AttendBackward {
  AttendSizes sizes;
  float scale = 0;
  HeadsPointer<const simt::bf16> q, k, v, out, dout;
  const float* lse = nullptr;
  float* delta = nullptr;
  HeadsPointer<simt::bf16> dq, dk, dv;
  const float* gate = nullptr;
};

/// The readable rung: one thread block per (batch, head), fp32, any head_dim. T is limited by the
/// scores of one query that must fit into shared memory: 25,000 at 99 KB.
void attend_simple_forward(const AttendForward<float>& args, int head_dim);

/// 64 x 64 tiles on tensor cores, bf16 with fp32 accumulation. HS 32, 64, 96, 128; rows 16-byte
/// aligned. Determinism: bitwise repeatable.
template <int HS>
void attend_tile_forward(const AttendForward<simt::bf16>& args);

/// Recomputes the probabilities from lse. No atomics: the same bits every time. HS 32, 64.
template <int HS>
void attend_tile_backward(const AttendBackward& args);

}  // namespace headloom::cuda
