#pragma once

#include "ops/backend.h"

namespace headloom {

/// The CUDA kernels as a backend on machines without a card: every launch goes to the emulation
/// (src/simt), multiplications to the reference, as cuBLAS would do them on a card. fp32. For
/// tests: slow, and watched for races and bounds.
const Ops<float>& emulated_ops();

}  // namespace headloom
