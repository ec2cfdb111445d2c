#pragma once

#include <string>
#include <vector>

#include "model/config.h"

namespace headloom {

/// A training step at one point of a sweep.
struct ScalingRow {
  std::string sweep;  ///< what is varied: "context", "batch", "threads"
  std::int64_t batch = 0, seq = 0;
  int threads = 0;
  double seconds_per_step = 0;
  double tokens_per_second = 0;
  double share = 0;              ///< of the FMA peak measured on these threads in this run
  double dense_seconds = 0;      ///< of multiplications, a step
  double attention_seconds = 0;  ///< of attention, a step
  double activation_bytes = 0;   ///< of all blocks together
};

/// Whole steps at equal tokens for contexts 256 to 4096, for batches 1 to `tokens` / context, and
/// for 1 to all threads, in turn.
std::vector<ScalingRow> bench_scaling(ModelConfig config, std::int64_t tokens, std::int64_t steps);

/// Decoding at one number of key/value heads.
struct KvHeadsRow {
  std::int64_t kv_heads = 0;
  std::int64_t prompt = 0;
  double tokens_per_second = 0;
  double cache_bytes_per_token = 0;  ///< keys and values read for each token
};

/// Decoding after a long prompt with fewer and fewer key/value heads: all, a half, a quarter, one.
std::vector<KvHeadsRow> bench_kv_heads(ModelConfig config, std::int64_t prompt,
                                       std::int64_t tokens);

}  // namespace headloom
