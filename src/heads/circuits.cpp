#include "heads/circuits.h"

#include <Eigen/Dense>
#include <cmath>

#include "heads/importance.h"
#include "ops/rope_ref.h"

namespace headloom {
namespace {

using Dense = Eigen::MatrixXd;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Dense dense(const Matrix<const float>& m) {
  return Eigen::Map<const RowMajor, 0, Eigen::OuterStride<>>(m.data, m.rows, m.cols,
                                                             Eigen::OuterStride<>(m.stride))
      .cast<double>();
}

/// Rows of `m` scaled by a norm's gain, where it has one.
Dense with_gain(const Matrix<const float>& m, const float* gain) {
  Dense result = dense(m);
  for (std::int64_t r = 0; gain != nullptr && r < m.rows; ++r) result.row(r) *= gain[r];
  return result;
}

/// One head's matrices in double, the gain of the norm before it folded in.
struct HeadMatrices {
  Dense query, key, value, out;  ///< [C,HS] three times, [HS,C]
};

/// Columns of queries, turned as rope turns those that stand `distance` tokens behind a key.
void turn(Dense& query, double base, std::int64_t distance) {
  const std::int64_t half = query.cols() / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(distance) * rope_frequency(i, query.cols(), base);
    const Eigen::VectorXd u = query.col(i), v = query.col(i + half);
    query.col(i) = u * std::cos(angle) - v * std::sin(angle);
    query.col(i + half) = u * std::sin(angle) + v * std::cos(angle);
  }
}

std::vector<HeadMatrices> matrices_of(const ModelConfig& config,
                                      const ModelWeights<const float>& weights,
                                      std::int64_t distance = 0) {
  std::vector<HeadMatrices> all;
  for (const HeadId& head : all_heads(config)) {
    const HeadSlices s = head_slices(config, weights, head);
    const float* gain = weights.blocks[static_cast<std::size_t>(head.layer)].norm1.gain;
    all.push_back(
        {with_gain(s.query, gain), with_gain(s.key, gain), with_gain(s.value, gain), dense(s.out)});
    if (config.positions == Positions::kRope) turn(all.back().query, config.rope_base, distance);
  }
  return all;
}

/// Frobenius norm of L R, both given by the products that make it cheap: ||L R||^2 =
/// tr(R^T (L^T L) R).
double product_norm(const Dense& left_gram, const Dense& middle, const Dense& right_gram) {
  return std::sqrt(std::max(0.0, (middle.transpose() * left_gram * middle * right_gram).trace()));
}

/// B = first second^T reads the earlier head's output; [C,HS] each.
double composition(const HeadMatrices& earlier, const Dense& first, const Dense& second) {
  const Dense left = earlier.value.transpose() * earlier.value;
  const Dense right = second.transpose() * second;
  const Dense identity = Dense::Identity(left.rows(), left.cols());
  const double whole = product_norm(left, earlier.out * first, right);
  const double a = product_norm(left, identity, earlier.out * earlier.out.transpose());
  const double b = product_norm(first.transpose() * first, identity, right);
  return a > 0 && b > 0 ? whole / (a * b) : 0.0;
}

double composition(Composition kind, const HeadMatrices& earlier, const HeadMatrices& later) {
  switch (kind) {
    case Composition::kQuery:
      return composition(earlier, later.query, later.key);
    case Composition::kKey:
      return composition(earlier, later.key, later.query);
    case Composition::kValue:
      return composition(earlier, later.value, later.out.transpose());
  }
  return 0;
}

}  // namespace

std::vector<double> copying_scores(const ModelConfig& config, const float* parameters) {
  const ParameterLayout layout(config);
  const ModelWeights<const float> weights = layout.views(parameters);
  // Padding rows are zero and add nothing.
  const Dense unembed = dense(weights.head), embed = dense(weights.token_table);
  Dense between = unembed.transpose() * embed;  // [C,C]
  for (std::int64_t c = 0; weights.final_norm.gain != nullptr && c < config.d_model; ++c) {
    between.row(c) *= weights.final_norm.gain[c];
  }
  std::vector<double> scores;
  for (const HeadMatrices& head : matrices_of(config, weights)) {
    const Dense small = head.out * between * head.value;
    const Eigen::EigenSolver<Dense> solver(small, /*computeEigenvectors=*/false);
    double sum = 0, sizes = 0;
    for (const auto& lambda : solver.eigenvalues()) {
      sum += lambda.real();
      sizes += std::abs(lambda);
    }
    scores.push_back(sizes > 0 ? sum / sizes : 0.0);
  }
  return scores;
}

std::vector<double> composition_scores(Composition kind, const ModelConfig& config,
                                       const float* parameters, const float* untrained,
                                       std::int64_t distance) {
  const ParameterLayout layout(config);
  const std::vector<HeadId> heads = all_heads(config);
  const auto scores_of = [&](const float* some) {
    const std::vector<HeadMatrices> matrices = matrices_of(config, layout.views(some), distance);
    std::vector<double> scores(heads.size() * heads.size());
    for (std::size_t a = 0; a < heads.size(); ++a) {
      for (std::size_t b = 0; b < heads.size(); ++b) {
        if (heads[a].layer >= heads[b].layer) continue;
        scores[a * heads.size() + b] = composition(kind, matrices[a], matrices[b]);
      }
    }
    return scores;
  };
  std::vector<double> scores = scores_of(parameters);
  double baseline = 0, pairs = 0;
  for (const double score : scores_of(untrained)) {
    baseline += score;
    pairs += score > 0 ? 1 : 0;
  }
  for (double& score : scores) {
    if (score > 0) score -= baseline / pairs;
  }
  return scores;
}

}  // namespace headloom
