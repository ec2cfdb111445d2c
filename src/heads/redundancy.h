#pragma once

#include "heads/ablation.h"

namespace headloom {

/// A symmetric table over all heads of a model, in the order of all_heads.
struct HeadTable {
  std::size_t heads = 0;
  std::vector<double> values;  ///< [heads, heads]

  explicit HeadTable(std::size_t n) : heads(n), values(n * n) {}
  double at(std::size_t a, std::size_t b) const { return values[a * heads + b]; }
  void set(std::size_t a, std::size_t b, double value) {
    values[a * heads + b] = values[b * heads + a] = value;
  }
};

/// How alike the heads' outputs are: linear CKA, 1 when one is a rotation and scaling of the other,
/// 0 when they have nothing to do with each other. What a head takes from position 0 is removed
/// first, because sinks make outputs alike. Without `across_layers` only heads of the same layer
/// are compared and the rest stays 0. Source: Kornblith et al. 2019.
HeadTable output_similarity(const ModelConfig& config, float* parameters,
                            const Sequences& sequences, bool across_layers,
                            const Ops<float>& ops = cpu_ops());

/// How differently the heads look: Jensen-Shannon divergence of their rows beyond the sink, mean
/// over rows 2 ... T-1, from 0 (alike) to ln 2; NaN for two that have no row beyond the sink in
/// common. Units: nats. Source: Clark et al. 2019.
HeadTable pattern_divergence(const ModelConfig& config, float* parameters,
                             const Sequences& sequences);

/// Mean over layers of the rank correlation of two numbers of each head. NaN where no layer has
/// three heads: two are ranked alike or not by chance.
double layer_correlation(const ModelConfig& config, const std::vector<double>& x,
                         const std::vector<double>& y);

/// Of each head the greatest similarity to another head of its layer: its redundancy.
std::vector<double> redundancy(const ModelConfig& config, const HeadTable& similarity);

}  // namespace headloom
