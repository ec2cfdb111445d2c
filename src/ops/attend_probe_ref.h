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
///   beyond the sink    the same with A_j / r, r = sum of A_j, j = 1 ... i, over ln(i); rows in
///                      which hardly anything (r < 1e-6) is left count as entropy 0, distance 0,
///                      confidence 1
namespace headloom {
namespace probe_detail {

constexpr double kNothingLeft = 1e-6;

/// One row of attention, and sums over its keys but the first, so that what little a sink leaves
/// is not lost in differences.
template <class Number>
struct Row {
  const Number* a = nullptr;  ///< probabilities of keys 0 ... i
  double entropy = 0;         ///< -sum A ln A
  double left = 0;            ///< sum A
  double distance = 0;        ///< sum A (i - j)
  double largest = 0;
};

/// The seven numbers of one row, i >= 1.
template <class Number>
void add_shape(const Row<Number>& row, std::int64_t i, double* sums) {
  const double sink = row.a[0], n = static_cast<double>(i);
  const double sink_entropy = sink > 0 ? -sink * std::log(sink) : 0.0;
  sums[static_cast<int>(HeadShape::kEntropy)] += (row.entropy + sink_entropy) / std::log(n + 1);
  sums[static_cast<int>(HeadShape::kDistance)] += row.distance + sink * n;
  sums[static_cast<int>(HeadShape::kConfidence)] += std::max(row.largest, sink);
  sums[static_cast<int>(HeadShape::kSink)] += sink;
  if (row.left < kNothingLeft) {
    sums[static_cast<int>(HeadShape::kConfidenceBeyondSink)] += 1;
    return;
  }
  const double rest = row.entropy / row.left + std::log(row.left);
  sums[static_cast<int>(HeadShape::kEntropyBeyondSink)] += i > 1 ? rest / std::log(n) : 0.0;
  sums[static_cast<int>(HeadShape::kDistanceBeyondSink)] += row.distance / row.left;
  sums[static_cast<int>(HeadShape::kConfidenceBeyondSink)] += row.largest / row.left;
}

/// Adds one eligible row's mass and hit.
template <class Number>
void add_set(const Number* a, const KeySet& set, std::int64_t row, std::int64_t likeliest,
             double* mass, double* hits) {
  for (std::int32_t n = set.begin[row]; n < set.begin[row + 1]; ++n) {
    *mass += a[set.keys[n]];
    if (set.keys[n] == likeliest) *hits += 1;
  }
}

/// All sums of one (batch, head), given a function that makes row i.
template <class T, class MakeRow>
void probe_head(const AttendProbe<T>& p, std::int64_t b, std::int64_t h, MakeRow&& make_row) {
  const std::int64_t seq = p.q.seq, place = b * p.q.heads + h, plane = p.q.batch * p.q.heads;
  std::vector<double> mass(static_cast<std::size_t>(p.n_sets)), hits(mass.size());
  double shape[kHeadShapes] = {};
  for (std::int64_t i = 0; i < seq; ++i) {
    const auto row = make_row(i);
    const auto likeliest = std::max_element(row.a, row.a + i + 1) - row.a;
    for (std::size_t s = 0; s < mass.size(); ++s) {
      add_set(row.a, p.sets[s], b * seq + i, likeliest, &mass[s], &hits[s]);
    }
    if (i > 0) add_shape(row, i, shape);
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
  std::vector<double> a(static_cast<std::size_t>(p.q.seq));
  for (std::int64_t b = 0; b < p.q.batch; ++b) {
    for (std::int64_t h = 0; h < p.q.heads; ++h) {
      probe_detail::probe_head(p, b, h, [&](std::int64_t i) {
        const T* q = p.q.at(b, i, h);
        const double lse = real_part(p.lse[(b * p.q.heads + h) * p.q.seq + i]);
        probe_detail::Row<double> row{.a = a.data()};
        for (std::int64_t j = 0; j <= i; ++j) {
          const T* k = p.k.at(b, j, h / group);
          double score = 0;
          for (std::int64_t d = 0; d < n; ++d) score += real_part(q[d]) * real_part(k[d]);
          const double probability = std::exp(score * scale - lse);
          a[static_cast<std::size_t>(j)] = probability;
          if (j == 0) continue;
          row.entropy += probability > 0 ? -probability * std::log(probability) : 0.0;
          row.left += probability;
          row.distance += probability * static_cast<double>(i - j);
          row.largest = std::max(row.largest, probability);
        }
        return row;
      });
    }
  }
}

}  // namespace headloom
