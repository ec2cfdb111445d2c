#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"

namespace headloom {

/// One step of a pass: what it worked on and what that took. Views cost nothing: 0 bytes, 0 FLOPs.
struct TraceStep {
  std::string name;
  std::string shape;
  std::string strides;
  double bytes = 0;
  double flops = 0;
  double seconds = 0;
};

/// A forward pass as it went.
struct Trace {
  std::vector<std::vector<TraceStep>> layers;  ///< the five steps of attention, then the MLP
  std::vector<TraceStep> around;               ///< embedding, all norms, logits
};

/// Runs one forward pass over `ids` (the second one is recorded: the first touches the memory).
Trace trace_forward(const ModelConfig& config, float* parameters,
                    std::span<const std::int32_t> ids);

}  // namespace headloom
