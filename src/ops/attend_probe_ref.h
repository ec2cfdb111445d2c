#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/attend_probe.h"
#include "ops/number.h"

/// The definition. For query i with probabilities A_j = exp(s_j - lse), j = 0 ... i:
///
///   mass of a set S    sum over j in S of A_j        hit: argmax_j A_j in S
///   entropy            -sum_j A_j ln A_j / ln(i + 1)
///   distance           sum_j A_j (i - j)             confidence  max_j A_j      sink  A_0
///   beyond the sink    the same with A_j / (1 - A_0), j = 1 ... i, over ln(i); rows in which
///   hardly
///                      anything (less than 1e-6) is left count as entropy 0, distance 0,
///                      confidence 1
namespace headloom {
namespace probe_detail {

constexpr double kNothingLeft = 1e-6;

/// The seven numbers of one row, i >= 1.
inline void add_shape(const std::vector<double>& a, std::int64_t i, double* sums) {
  double entropy = 0, distance = 0, confidence = 0, beyond = 0;
  for (std::int64_t j = 0; j <= i; ++j) {
    const double p = a[static_cast<std::size_t>(j)];
    const double term = p > 0 ? -p * std::log(p) : 0.0;
    entropy += term;
    distance += p * static_cast<double>(i - j);
    confidence = std::max(confidence, p);
    if (j > 0) beyond = std::max(beyond, p);
  }
  const double sink = a[0], left = 1 - sink, n = static_cast<double>(i);
  sums[static_cast<int>(HeadShape::kEntropy)] += entropy / std::log(n + 1);
  sums[static_cast<int>(HeadShape::kDistance)] += distance;
  sums[static_cast<int>(HeadShape::kConfidence)] += confidence;
  sums[static_cast<int>(HeadShape::kSink)] += sink;
  if (left < kNothingLeft) {
    sums[static_cast<int>(HeadShape::kConfidenceBeyondSink)] += 1;
    return;
  }
  const double sink_term = sink > 0 ? -sink * std::log(sink) : 0.0;
  const double rest = (entropy - sink_term) / left + std::log(left);
  sums[static_cast<int>(HeadShape::kEntropyBeyondSink)] += i > 1 ? rest / std::log(n) : 0.0;
  sums[static_cast<int>(HeadShape::kDistanceBeyondSink)] += (distance - sink * n) / left;
  sums[static_cast<int>(HeadShape::kConfidenceBeyondSink)] += beyond / left;
}

/// Adds one eligible row's mass and hit.
inline void add_set(const std::vector<double>& a, const KeySet& set, std::int64_t row,
                    std::int64_t likeliest, double* mass, double* hits) {
  for (std::int32_t n = set.begin[row]; n < set.begin[row + 1]; ++n) {
    *mass += a[static_cast<std::size_t>(set.keys[n])];
    if (set.keys[n] == likeliest) *hits += 1;
  }
}

/// All sums of one (batch, head), given a function that fills in the probabilities of a row.
template <class T, class Row>
void probe_head(const AttendProbe<T>& p, std::int64_t b, std::int64_t h, Row&& probabilities) {
  const std::int64_t seq = p.q.seq, place = b * p.q.heads + h, plane = p.q.batch * p.q.heads;
  std::vector<double> a(static_cast<std::size_t>(seq));
  std::vector<double> mass(static_cast<std::size_t>(p.n_sets)), hits(mass.size());
  double shape[kHeadShapes] = {};
  for (std::int64_t i = 0; i < seq; ++i) {
    probabilities(i, a);
    const auto likeliest = std::max_element(a.begin(), a.begin() + i + 1) - a.begin();
    for (std::size_t s = 0; s < mass.size(); ++s) {
      add_set(a, p.sets[s], b * seq + i, likeliest, &mass[s], &hits[s]);
    }
    if (i > 0) add_shape(a, i, shape);
  }
  for (std::size_t s = 0; s < mass.size(); ++s) {
    const auto at = static_cast<std::int64_t>(s) * plane + place;
    p.mass[at] = static_cast<T>(mass[s]);
    p.hits[at] = static_cast<T>(hits[s]);
  }
  for (std::int64_t s = 0; s < kHeadShapes; ++s)
    p.shape[s * plane + place] = static_cast<T>(shape[s]);
}

}  // namespace probe_detail

template <class T>
void attend_probe_ref(const AttendProbe<T>& p) {
  const std::int64_t group = p.q.heads / p.k.heads, n = p.q.head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(n));
  for (std::int64_t b = 0; b < p.q.batch; ++b) {
    for (std::int64_t h = 0; h < p.q.heads; ++h) {
      probe_detail::probe_head(p, b, h, [&](std::int64_t i, std::vector<double>& a) {
        const T* q = p.q.at(b, i, h);
        const double lse = real_part(p.lse[(b * p.q.heads + h) * p.q.seq + i]);
        for (std::int64_t j = 0; j <= i; ++j) {
          const T* k = p.k.at(b, j, h / group);
          double score = 0;
          for (std::int64_t d = 0; d < n; ++d) score += real_part(q[d]) * real_part(k[d]);
          a[static_cast<std::size_t>(j)] = std::exp(score * scale - lse);
        }
      });
    }
  }
}

}  // namespace headloom
