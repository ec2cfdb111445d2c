#pragma once

#include "ops/backend.h"

namespace headloom {

/// The CUDA kernels as a backend on machines without a card: every launch goes to the emulation
/// (src/simt); multiplications, which a card would leave to cuBLAS, and the head probe go to the
/// reference. fp32. For tests: slow, and watched for races and bounds.
const Ops<float>& emulated_ops();

}  // namespace headloom
