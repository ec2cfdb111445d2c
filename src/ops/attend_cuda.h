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

/// The first row of head h of sequence b.
template <class T>
SIMT_FN T* rows_of(const HeadsPointer<T>& x, std::int64_t b, std::int64_t h) {
  return x.data + b * x.batch + h * x.head;
}

SIMT_FN float gate_of(const float* gates, std::int64_t h) {
  return gates != nullptr ? gates[h] : 1.0F;
}

/// `seq` keys. The simple kernel takes fewer queries too, the last ones; -1: as many as keys.
struct AttendSizes {
  int batch = 0, seq = 0, heads = 0, kv_heads = 0;
  int queries = -1;
};

/// Writes: out, lse [B,NH,T] (=); lse may be null in the simple kernel. gate [NH] or null.
template <class T>
struct AttendForward {
  AttendSizes sizes;
  float scale = 0;  ///< 1 / sqrt(HS)
  HeadsPointer<const T> q, k, v;
  HeadsPointer<T> out;
  float* lse = nullptr;
  const float* gate = nullptr;
};

/// Writes: dq, dk, dv (=); delta [B,NH,T], the tiled kernel's scratch for rowsum(dout * out); dgate
/// [B,NH] (=) or null, the simple kernel's alone.
template <class T>
struct AttendBackward {
  AttendSizes sizes;
  float scale = 0;
  HeadsPointer<const T> q, k, v, out, dout;
  const float* lse = nullptr;
  float* delta = nullptr;
  HeadsPointer<T> dq, dk, dv;
  const float* gate = nullptr;
  float* dgate = nullptr;
};

/// The readable rung: one thread block per (batch, head), fp32, any head_dim. T is limited by the
/// scores of one query that must fit into shared memory: 25,000 at 99 KB.
void attend_simple_forward(const AttendForward<float>& args, int head_dim);

/// The same with one block per (batch, key head), which owns its dk and dv: no atomics, the same
/// bits every time. Two rows of T floats must fit into shared memory.
void attend_simple_backward(const AttendBackward<float>& args, int head_dim);

/// 64 x 64 tiles on tensor cores, bf16 with fp32 accumulation. HS 32, 64, 96, 128; rows 16-byte
/// aligned (strides a multiple of 8). Determinism: bitwise repeatable.
template <int HS>
void attend_tile_forward(const AttendForward<simt::bf16>& args);

/// Recomputes the probabilities from lse. No atomics: the same bits every time. HS 32, 64.
template <int HS>
void attend_tile_backward(const AttendBackward<simt::bf16>& args);

}  // namespace headloom::cuda
