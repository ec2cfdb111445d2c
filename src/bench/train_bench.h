#pragma once

#include <cstdint>
#include <vector>

#include "bench/profile.h"
#include "model/config.h"

namespace headloom {

/// FLOPs per token of one pass, as multiplications and attention count them (causal pairs exactly).
struct ModelFlops {
  double dense = 0;      ///< projections and MLP, forward
  double attention = 0;  ///< forward
  double logits = 0;     ///< forward

  double forward() const { return dense + attention + logits; }
  /// Backward takes each multiplication twice, and attention's two products become five.
  double training() const { return 3 * (dense + logits) + 3.5 * attention; }
};

ModelFlops model_flops(const ModelConfig& config, std::int64_t seq);

/// What a whole optimizer step costs.
struct TrainBench {
  double seconds_per_step = 0;  ///< median
  double tokens_per_second = 0;
  double peak = 0;             ///< FMA peak measured between the steps, FLOP/s
  double share = 0;            ///< of that peak, median over the steps
  std::vector<OpProfile> ops;  ///< summed over the steps
  std::int64_t steps = 0;
};

/// Times whole optimizer steps of a Trainer on random tokens, the FMA peak measured around each.
TrainBench bench_train(const ModelConfig& config, std::int64_t batch, std::int64_t steps);

}  // namespace headloom
