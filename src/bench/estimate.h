#pragma once

#include "model/config.h"

namespace headloom {

/// What training will cost on this machine.
struct SpeedEstimate {
  double flops_per_second = 0;  ///< measured on one layer of the model
  double seconds_per_step = 0;
  double tokens_per_second = 0;
};

/// Measures forward and backward of one layer of the model for about `seconds`, and works out the
/// whole step from it, AdamW included. Takes the memory of that layer, not of the run.
SpeedEstimate estimate_speed(const ModelConfig& config, std::int64_t batch, double seconds = 2);

}  // namespace headloom
