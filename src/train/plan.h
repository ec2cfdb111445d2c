#pragma once

#include <cstdint>
#include <string>

#include "ops/backend.h"
#include "train/config.h"

namespace headloom {

/// Memory of a training run by category, in bytes; exact, from the layouts that the run will use.
struct MemoryPlan {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;    ///< AdamW's two moments
  std::int64_t activations = 0;  ///< what forward keeps for backward
  std::int64_t buffers = 0;      ///< logits, gradients of activations, losses
  std::int64_t scratch = 0;      ///< of the kernels, all threads (an estimate)

  std::int64_t total() const {
    return weights + gradients + optimizer + activations + buffers + scratch;
  }
};

/// FLOPs per token of one pass, as multiplications and attention count them (causal pairs exactly).
struct ModelFlops {
  double dense = 0;      ///< projections and MLP, forward
  double attention = 0;  ///< forward
  double logits = 0;     ///< forward

  double forward() const { return dense + attention + logits; }
  /// Each multiplication is done twice more on the way back; attention's two products become five.
  double training() const { return 3 * (dense + logits) + 3.5 * attention; }
};

/// For Ops::scratch_bytes and Ops::reserve.
ScratchSizes scratch_sizes(const ModelConfig& config, std::int64_t batch, std::int64_t seq,
                           const Device& device);

/// `ops` is the table that the run will use.
MemoryPlan plan_memory(const ModelConfig& config, std::int64_t batch, std::int64_t seq,
                       const Ops<float>& ops = cpu_ops());

ModelFlops model_flops(const ModelConfig& config, std::int64_t seq);

/// What the heads' width costs on this machine when it is no multiple of its vectors; empty when it
/// is one.
std::string head_dim_advice(const ModelConfig& config);

/// Memory that this process could still get, in bytes: what the kernel calls available, or less
/// where a control group sets a limit. 0 when the system does not tell.
std::int64_t available_memory();

/// Bytes of a device that a run takes beside its training: the watch on the heads, with weights of
/// its own, and the decoder of samples. 0 on the CPU, where both are small beside the rest.
std::int64_t memory_beside_training(const RunConfig& config, const Ops<float>& ops);

/// Refuses a run that cannot fit. Errors: kUsage with the bytes wanted and available, by category,
/// and the largest batch that fits, or that none does.
void require_memory(const ModelConfig& config, std::int64_t batch, std::int64_t available,
                    const Ops<float>& ops = cpu_ops());

}  // namespace headloom
