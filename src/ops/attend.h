#pragma once

#include "ops/check.h"

namespace headloom {

/// Attends: out = softmax(q k^T / sqrt(HS), causal) v for every (batch, head) at once.
///
/// Shapes: q, out [B,Tq,NH,HS]; k, v [B,Tk,KVH,HS], Tk >= Tq, NH a multiple of KVH; lse [B,NH,Tq].
/// Query i stands at position Tk - Tq + i and looks at keys 0 ... Tk - Tq + i, so the whole
/// sequence (Tq = Tk), a continued prompt and one decoded token (Tq = 1) are the same op. With
/// fewer key heads than query heads, query head h uses key head h / (NH / KVH). Writes: out (=);
/// lse (=), natural-log sum of exponentials of each row's scores, saved for backward; lse may be
/// null when no backward follows. Gates multiply what a head puts out, not where it looks:
/// out = gate[h] * P v; gates lie in the host's memory. Determinism: bitwise repeatable; a row
/// depends on no later position and on no other sequence (a v that is not finite may reach the few
/// rows before it that share a vector with it). Source: Vaswani et al. 2017, eq. 1; tiling and lse
/// as in Dao et al. 2022.
template <class T>
struct AttendForward {
  Heads<const T> q;
  Heads<const T> k;
  Heads<const T> v;
  Heads<T> out;
  T* lse = nullptr;
  const T* gate = nullptr;  ///< [NH]; null: 1
};

/// Gradients of AttendForward with Tq = Tk = T.
///
/// Shapes: as forward; dout like out; dq like q; dk, dv like k; dgate [B,NH].
/// Writes: dq, dk, dv (=); dgate (=) unless null, the gradient by each gate, sequence by sequence:
/// sum over rows of dout . P v, whatever the gate is; both in the host's memory. Reads out, gated,
/// and lse as forward saved them. Determinism: bitwise repeatable, no atomics. Source: Dao et al.
/// 2022, algorithm 4: dS = P * (dP - rowsum(dout * out)).
template <class T>
struct AttendBackward {
  Heads<const T> q;
  Heads<const T> k;
  Heads<const T> v;
  Heads<const T> out;
  Heads<const T> dout;
  const T* lse = nullptr;
  Heads<T> dq;
  Heads<T> dk;
  Heads<T> dv;
  const T* gate = nullptr;
  T* dgate = nullptr;
};

namespace attend_detail {

template <class T>
void check_keys(const char* op, const Heads<T>& q, const Heads<T>& k) {
  if (k.heads < 1 || q.heads % k.heads != 0) {
    fail("{}: {} query heads cannot share {} key heads evenly", op, q.heads, k.heads);
  }
  if (k.seq < q.seq) fail("{}: {} queries but only {} keys", op, q.seq, k.seq);
}

}  // namespace attend_detail

template <class T>
void check(const AttendForward<T>& a) {
  const char* op = "attend_forward";
  check_heads(op, "q", a.q, a.q.batch, a.q.seq, a.q.heads, a.q.head_dim);
  attend_detail::check_keys(op, a.q, a.k);
  check_heads(op, "k", a.k, a.q.batch, a.k.seq, a.k.heads, a.q.head_dim);
  check_heads(op, "v", a.v, a.k.batch, a.k.seq, a.k.heads, a.k.head_dim);
  check_heads(op, "out", a.out, a.q.batch, a.q.seq, a.q.heads, a.q.head_dim);
}

template <class T>
void check(const AttendBackward<T>& a) {
  const char* op = "attend_backward";
  check(AttendForward<T>{a.q, a.k, a.v, a.dq, nullptr});
  check_equal(op, "number of keys", a.k.seq, a.q.seq);
  check_heads(op, "out", a.out, a.q.batch, a.q.seq, a.q.heads, a.q.head_dim);
  check_heads(op, "dout", a.dout, a.q.batch, a.q.seq, a.q.heads, a.q.head_dim);
  check_heads(op, "dk", a.dk, a.k.batch, a.k.seq, a.k.heads, a.k.head_dim);
  check_heads(op, "dv", a.dv, a.k.batch, a.k.seq, a.k.heads, a.k.head_dim);
  check_present(op, "lse", a.lse);
}

}  // namespace headloom
