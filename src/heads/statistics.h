#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headloom {

/// A mean over rows that come in sequences, with what its sequences say about its error. Sequences,
/// not rows, are what is drawn independently.
struct Estimate {
  double mean = 0;
  double low = 0, high = 0;  ///< 95% interval
  double p = 1;              ///< chance of such a mean or a larger one if the truth were at most 0
  std::int64_t rows = 0;
};

/// Sum over rows and number of rows, sequence by sequence.
struct SequenceSum {
  double sum = 0;
  double rows = 0;
};

/// sum / rows over all sequences; interval from 1000 bootstrap resamples of the sequences (the same
/// ones for the same seed and number of sequences, so that differences between two estimates carry
/// no noise of their own); p from Student's t with the ratio's standard error, 1 where fewer than
/// five sequences have rows. Without rows everything is 0 and p is 1. Source: Efron & Tibshirani
/// 1993.
Estimate estimate_mean(std::span<const SequenceSum> sums, std::uint64_t seed);

/// That p alone, without the resampling.
double mean_above_zero(std::span<const SequenceSum> sums);

/// Chance that Student's t is at least `t`, t and its degrees of freedom as given; right to a few
/// percent of itself. Source: Wallace 1959.
double student_tail(double t, double degrees);

/// Which hypotheses are rejected when the false-discovery rate is held at `rate`: of those marked
/// true, at most that share is false, on average. Source: Benjamini & Hochberg 1995.
std::vector<bool> reject_at(std::span<const double> p, double rate);

/// Spearman's rank correlation, ties sharing their mean rank; 0 when one side is constant.
double rank_correlation(std::span<const double> x, std::span<const double> y);

}  // namespace headloom
