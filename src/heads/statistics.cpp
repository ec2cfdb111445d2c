#include "heads/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace headloom {
namespace {

constexpr int kResamples = 1000;

std::vector<std::size_t> order_of(std::span<const double> x) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  return order;
}

std::vector<double> ranks(std::span<const double> x) {
  const std::vector<std::size_t> order = order_of(x);
  std::vector<double> rank(x.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && x[order[end]] == x[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) {
      rank[order[i]] = (static_cast<double>(begin + end) - 1) / 2;
    }
    begin = end;
  }
  return rank;
}

/// Sequences with rows: fewer tell nothing of their scatter.
constexpr double kFewestSequences = 5;

/// Standard error of the ratio of two sums over sequences, and how many of those have rows.
struct RatioError {
  double error = 0, count = 0;
};
RatioError ratio_error(std::span<const SequenceSum> sums, double ratio, double rows) {
  double squares = 0, count = 0;
  for (const SequenceSum& s : sums) {
    if (s.rows == 0) continue;
    squares += (s.sum - ratio * s.rows) * (s.sum - ratio * s.rows);
    count += 1;
  }
  return {count > 1 ? std::sqrt(squares * count / (count - 1)) / rows : INFINITY, count};
}

}  // namespace

double student_tail(double t, double degrees) {
  const double size = std::sqrt(degrees * std::log1p(t * t / degrees));
  const double normal = (8 * degrees + 1) / (8 * degrees + 3) * size;
  return 0.5 * std::erfc(std::copysign(normal, t) / std::sqrt(2.0));
}

double mean_above_zero(std::span<const SequenceSum> sums) {
  double total = 0, rows = 0;
  for (const SequenceSum& s : sums) total += s.sum, rows += s.rows;
  if (rows == 0) return 1;
  const auto [error, count] = ratio_error(sums, total / rows, rows);
  if (count < kFewestSequences) return 1;
  if (error == 0) return total > 0 ? 0 : 1;  // every sequence says the same
  return student_tail(total / rows / error, count - 1);
}

Estimate estimate_mean(std::span<const SequenceSum> sums, std::uint64_t seed) {
  double total = 0, rows = 0;
  for (const SequenceSum& s : sums) total += s.sum, rows += s.rows;
  if (rows == 0) return {};
  Estimate result{.mean = total / rows, .rows = static_cast<std::int64_t>(rows)};
  result.p = mean_above_zero(sums);
  Rng rng(mix_seed(seed, sums.size()));
  std::vector<double> means;
  for (int sample = 0; sample < kResamples; ++sample) {
    double sum = 0, n = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const SequenceSum& s = sums[rng.below(sums.size())];
      sum += s.sum, n += s.rows;
    }
    if (n > 0) means.push_back(sum / n);
  }
  std::sort(means.begin(), means.end());
  result.low = means[means.size() / 40];
  result.high = means[means.size() - 1 - means.size() / 40];
  return result;
}

std::vector<bool> reject_at(std::span<const double> p, double rate) {
  const std::vector<std::size_t> order = order_of(p);
  std::vector<bool> rejected(p.size(), false);
  std::size_t last = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double bound = rate * static_cast<double>(i + 1) / static_cast<double>(p.size());
    if (p[order[i]] <= bound) last = i + 1;
  }
  for (std::size_t i = 0; i < last; ++i) rejected[order[i]] = true;
  return rejected;
}

double rank_correlation(std::span<const double> x, std::span<const double> y) {
  const std::vector<double> a = ranks(x), b = ranks(y);
  const double middle = (static_cast<double>(a.size()) - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - middle) * (b[i] - middle);
    aa += (a[i] - middle) * (a[i] - middle);
    bb += (b[i] - middle) * (b[i] - middle);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0.0;
}

}  // namespace headloom
