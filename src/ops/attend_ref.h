#pragma once

#include <cmath>
#include <vector>

#include "ops/attend.h"
#include "ops/number.h"

/// The definition. For one query row at position p, with keys j = 0 ... p:
///
///   s_j = q . k_j / sqrt(HS)      P_j = exp(s_j - lse),  lse = log sum_j exp(s_j)
///   out = g sum_j P_j v_j,  g the head's gate (1 without)
///
/// and backward, given dout (dP_j = g dout . v_j):
///
///   dv_j += P_j g dout            dS_j = P_j (dP_j - D),  D = dout . out = sum_j P_j dP_j
///   dg   += sum_j P_j dout . v_j
///   dq    = sum_j dS_j k_j / sqrt(HS)
///   dk_j += dS_j q / sqrt(HS)
namespace headloom {
namespace attend_detail {

template <class T>
Sum<T> dot(const T* a, const T* b, std::int64_t n) {
  Sum<T> sum = 0;
  for (std::int64_t d = 0; d < n; ++d) sum += Sum<T>(a[d]) * Sum<T>(b[d]);
  return sum;
}

template <class T>
Real<Sum<T>> scale(std::int64_t head_dim) {
  return 1 / std::sqrt(static_cast<Real<Sum<T>>>(head_dim));
}

template <class T>
Sum<T> gate_of(const T* gates, std::int64_t head) {
  return gates != nullptr ? Sum<T>(gates[head]) : Sum<T>(1);
}

}  // namespace attend_detail

template <class T>
void attend_forward_ref(const AttendForward<T>& a) {
  using std::exp, std::log;
  const std::int64_t group = a.q.heads / a.k.heads;
  const auto scale = attend_detail::scale<T>(a.q.head_dim);
  std::vector<Sum<T>> score(a.k.seq), sum(a.q.head_dim);
  for (std::int64_t b = 0; b < a.q.batch; ++b) {
    for (std::int64_t h = 0; h < a.q.heads; ++h) {
      const Sum<T> gate = attend_detail::gate_of(a.gate, h);
      for (std::int64_t i = 0; i < a.q.seq; ++i) {
        const std::int64_t keys = a.k.seq - a.q.seq + i + 1;
        Sum<T> largest = -INFINITY;
        for (std::int64_t j = 0; j < keys; ++j) {
          const T* k = a.k.at(b, j, h / group);
          score[j] = attend_detail::dot(a.q.at(b, i, h), k, a.q.head_dim) * scale;
          if (!(real_part(score[j]) <= real_part(largest))) largest = score[j];
        }
        Sum<T> total = 0;
        for (std::int64_t j = 0; j < keys; ++j) total += exp(score[j] - largest);
        const Sum<T> lse = largest + log(total);
        if (a.lse != nullptr) a.lse[(b * a.q.heads + h) * a.q.seq + i] = static_cast<T>(lse);
        std::fill(sum.begin(), sum.end(), Sum<T>(0));
        for (std::int64_t j = 0; j < keys; ++j) {
          const Sum<T> p = exp(score[j] - lse);
          const T* v = a.v.at(b, j, h / group);
          for (std::int64_t d = 0; d < a.q.head_dim; ++d) sum[d] += p * Sum<T>(v[d]);
        }
        T* out = a.out.at(b, i, h);
        for (std::int64_t d = 0; d < a.q.head_dim; ++d) out[d] = static_cast<T>(gate * sum[d]);
      }
    }
  }
}

template <class T>
void attend_backward_ref(const AttendBackward<T>& a) {
  using std::exp;
  const std::int64_t n = a.q.head_dim, group = a.q.heads / a.k.heads;
  const auto scale = attend_detail::scale<T>(n);
  std::vector<Sum<T>> dq(n), dk(a.k.seq * n), dv(a.k.seq * n);
  for (std::int64_t b = 0; b < a.q.batch; ++b) {
    for (std::int64_t kv = 0; kv < a.k.heads; ++kv) {
      std::fill(dk.begin(), dk.end(), Sum<T>(0));
      std::fill(dv.begin(), dv.end(), Sum<T>(0));
      for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        const Sum<T> gate = attend_detail::gate_of(a.gate, h);
        Sum<T> dgate = 0;
        for (std::int64_t i = 0; i < a.q.seq; ++i) {
          const T *q = a.q.at(b, i, h), *dout = a.dout.at(b, i, h);
          const Sum<T> lse = a.lse[(b * a.q.heads + h) * a.q.seq + i];
          const Sum<T> row_sum = attend_detail::dot(dout, a.out.at(b, i, h), n);
          std::fill(dq.begin(), dq.end(), Sum<T>(0));
          for (std::int64_t j = 0; j <= i; ++j) {
            const T *k = a.k.at(b, j, kv), *v = a.v.at(b, j, kv);
            const Sum<T> p = exp(attend_detail::dot(q, k, n) * scale - lse);
            const Sum<T> dp = attend_detail::dot(dout, v, n);
            const Sum<T> ds = p * (gate * dp - row_sum) * scale;
            dgate += p * dp;
            for (std::int64_t d = 0; d < n; ++d) {
              dv[j * n + d] += p * gate * Sum<T>(dout[d]);
              dk[j * n + d] += ds * Sum<T>(q[d]);
              dq[d] += ds * Sum<T>(k[d]);
            }
          }
          T* out = a.dq.at(b, i, h);
          for (std::int64_t d = 0; d < n; ++d) out[d] = static_cast<T>(dq[d]);
        }
        if (a.dgate != nullptr) a.dgate[b * a.q.heads + h] = static_cast<T>(dgate);
      }
      for (std::int64_t j = 0; j < a.k.seq; ++j) {
        for (std::int64_t d = 0; d < n; ++d) {
          a.dk.at(b, j, kv)[d] = static_cast<T>(dk[j * n + d]);
          a.dv.at(b, j, kv)[d] = static_cast<T>(dv[j * n + d]);
        }
      }
    }
  }
}

}  // namespace headloom
