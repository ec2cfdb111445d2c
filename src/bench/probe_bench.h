#pragma once

#include <cstdint>

#include "model/config.h"
#include "ops/backend.h"

namespace headloom {

/// What looking at every head during training costs. Units: seconds, medians.
struct ProbeBench {
  std::int64_t every = 0;   ///< steps between looks, the default
  double step = 0;          ///< a step that nobody looks at
  double watched_step = 0;  ///< one whose gradients are gathered
  double look = 0;          ///< what follows it
  /// Of training time: (watched_step - step + look) / (every * step).
  double overhead() const {
    return (watched_step - step + look) / (static_cast<double>(every) * step);
  }
};

/// Plain and watched steps in turn, `rounds` of each.
ProbeBench bench_probes(const ModelConfig& config, std::int64_t batch, std::int64_t rounds,
                        const Ops<float>& ops = cpu_ops());

}  // namespace headloom
