#pragma once

#include <cstdint>

#include "ops/backend.h"

namespace headloom {

/// Measures what the cores can do in fp32 fused multiply-adds on all threads, with the instruction
/// set in use: dependent chains in as many registers as hide the latency. Units: FLOP/s (an FMA is
/// two). Takes `seconds`.
double measure_fma_peak(double seconds = 0.05);

/// Measures copying one large array to another on all threads. Units: bytes/s, read and written
/// counted both.
double measure_copy_bandwidth(double seconds = 0.1);

/// Measures reading one large array on all threads, as decoding reads weights. Units: bytes/s.
double measure_read_bandwidth(double seconds = 0.1);

/// What a card multiplies square matrices of `size` at, operands rounded beforehand: what there is
/// to be had of it at the precision of its table. Units: FLOP/s.
double measure_gemm_peak(const Ops<float>& ops, std::int64_t size);

}  // namespace headloom
