#pragma once

#include <cstdint>
#include <vector>

#include "bench/profile.h"
#include "model/config.h"

namespace headloom {

/// What a whole optimizer step costs.
struct TrainBench {
  double seconds_per_step = 0;  ///< median
  double tokens_per_second = 0;
  double peak = 0;             ///< FMA peak measured between the steps, FLOP/s
  double share = 0;            ///< of that peak, median over the steps
  std::vector<OpProfile> ops;  ///< summed over the steps
  std::int64_t steps = 0;
};

/// Times whole optimizer steps of a Trainer on random tokens, the peak measured around each (on a
/// card: what its gemm reaches).
TrainBench bench_train(const ModelConfig& config, std::int64_t batch, std::int64_t steps,
                       const Ops<float>& ops = cpu_ops());

}  // namespace headloom
