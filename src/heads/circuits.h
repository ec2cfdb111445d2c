#pragma once

#include "heads/ablation.h"
#include "heads/redundancy.h"

namespace headloom {

/// How much of a head copies: sum(lambda) / sum(|lambda|) over the eigenvalues of its circuit from
/// token to logit, W_E W_V W_O W_U, with the gains of the norms folded in. 1: whatever it looks at
/// it makes likelier; -1: less likely; near 0: neither. From the weights alone. The V x V matrix
/// has the nonzero eigenvalues of an HS x HS one, which is what is solved. Source: Elhage et al.
/// 2021. In the order of all_heads.
std::vector<double> copying_scores(const ModelConfig& config, const float* parameters);

/// How a later head may read an earlier one's output: with its queries, keys or values.
enum class Composition { kQuery, kKey, kValue };
template <>
struct EnumNames<Composition> {
  static constexpr std::string_view kNames[] = {"query", "key", "value"};
};

/// ||A B|| / (||A|| ||B||), A the earlier head's W_V W_O, B what reads it (W_Q W_K^T, its
/// transpose, or W_V W_O), less the mean of the same in `untrained`, weights fresh from the
/// initialisation: 0 is what chance gives. Row: the earlier head, column: the later; 0 where there
/// is no later layer. Learned positions are left out. Under rope the product of a query and a key
/// depends on how far the query stands behind the key: `distance`, in tokens, turns the queries by
/// that much. Source: Elhage et al. 2021.
std::vector<double> composition_scores(Composition kind, const ModelConfig& config,
                                       const float* parameters, const float* untrained,
                                       std::int64_t distance = 0);

}  // namespace headloom
