#pragma once

#include "ops/backend.h"

namespace headloom {

/// The CUDA backend on machines without a card: kernels run in the emulation (src/simt) in which
/// memory is the device's own: the CPU that follows one of its addresses outside of a copy is
/// stopped by the system. Multiplications, which a card leaves to cuBLASLt, go to the reference,
/// with operands rounded as the precision says. For tests: slow, and watched for races and bounds.
const Ops<float>& emulated_ops(Precision precision = Precision::kFp32);

/// What is running on it, and what was.
struct EmulatedDeviceReport {
  std::int64_t allocated = 0;  ///< bytes, guards included
  std::int64_t requested = 0;  ///< bytes that arenas have asked for and hold
  std::int64_t replays = 0;
};
EmulatedDeviceReport emulated_device_report();
/// What `available` tells, and allocations are refused beyond; 0: no limit. Units: bytes.
void set_emulated_memory(std::int64_t bytes);

}  // namespace headloom
