#pragma once

#include <cstdint>

#include "model/config.h"
#include "ops/backend.h"

namespace headloom {

/// What writing text costs.
struct DecodeBench {
  double prompt_tokens_per_second = 0;
  double tokens_per_second = 0;  ///< one by one, after the prompt (median)
  double bytes_per_token = 0;    ///< weights read for each
  double bandwidth = 0;          ///< read bandwidth measured in the same run, bytes/s
  double share = 0;              ///< of that bandwidth
};

/// Passes a prompt through a model with fresh weights, then decodes `tokens` one by one.
/// Errors: kUsage when prompt and tokens do not fit into the context.
DecodeBench bench_decode(const ModelConfig& config, std::int64_t prompt, std::int64_t tokens,
                         const Ops<float>& ops = cpu_ops());

}  // namespace headloom
