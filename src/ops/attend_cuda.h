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

/// Writes: dq, dk, dv (=); delta [B,NH,T] (=), scratch for rowsum(dout * out), not the simple
/// kernel's; dgate [B,NH] (=) or null, the simple kernel's alone.
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

/// Arguments of kernels that take any head_dim.
template <class Args>
struct AnyHeadDim {
  Args args;
  int head_dim = 0;
};

/// The readable rung: one thread block per (batch, head), fp32, any head_dim. T is limited by the
/// scores of one query that must fit into shared memory: 25,000 at 99 KB.
void attend_simple_forward(const AttendForward<float>& args, int head_dim);

/// The same with one block per (batch, key head), which owns its dk and dv: no atomics, the same
/// bits every time. Two rows of T floats must fit into shared memory.
void attend_simple_backward(const AttendBackward<float>& args, int head_dim);

/// The same numbers with a block to 16 queries (and, for dk and dv, to 16 keys): what a model runs
/// in fp32.
void attend_rows_forward(const AttendForward<float>& args, int head_dim);
void attend_rows_backward(const AttendBackward<float>& args, int head_dim);

/// delta[b,h,t] = sum over HS of dout * out.
template <class T>
void attend_delta(const AttendSizes& sizes, HeadsPointer<const T> dout, HeadsPointer<const T> out,
                  int head_dim, float* delta);
/// dgate[b,h] = sum over t of delta.
void attend_gate_gradient(const AttendSizes& sizes, const float* delta, float* dgate);

/// As AttendProbe (attend_probe.h), everything in the device's memory. Set s has in row r the keys
/// keys[key_first[s] + n], begins[s * (B*T + 1) + r] <= n < begins[s * (B*T + 1) + r + 1].
/// Writes: sums [shapes, mass of sets, hits of sets][B*NH] (=); parts, scratch for as many doubles
/// for each kProbeRows queries.
struct Probe {
  AttendSizes sizes;
  int head_dim = 0;
  float scale = 0;
  HeadsPointer<const float> q, k;
  const float* lse = nullptr;
  const std::int32_t *begins = nullptr, *keys = nullptr;
  const std::int64_t* key_first = nullptr;
  int n_sets = 0;
  double* parts = nullptr;
  float* sums = nullptr;
};
inline constexpr int kProbeRows = 16;
void probe_heads(const Probe& args);

/// The head_dim of the tiles that a head of `head_dim` runs in: 32, 64, 96 or 128; 0 when it is
/// wider than any.
std::int64_t tile_head_dim(std::int64_t head_dim);

/// 64 x 64 tiles on tensor cores, bf16 with fp32 accumulation. HS 32, 64, 96, 128; rows 16-byte
/// aligned (strides a multiple of 8). Determinism: bitwise repeatable.
template <int HS>
void attend_tile_forward(const AttendForward<simt::bf16>& args);

/// Recomputes the probabilities from lse. No atomics: the same bits every time. HS 32, 64, 96, 128.
template <int HS>
void attend_tile_backward(const AttendBackward<simt::bf16>& args);

}  // namespace headloom::cuda
