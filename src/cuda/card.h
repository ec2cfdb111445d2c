#pragma once

#include <cuda_runtime_api.h>

#include "cuda/platform.h"
#include "tensor/device.h"

/// A card, as the tables of ops and devices want one.
namespace headloom::cuda {

/// The first card of this machine, or the one that CUDA_VISIBLE_DEVICES leaves first.
/// Errors: kUsage when there is none that this build has code for, with the reason.
const Device& card();

/// The queue that all work goes into.
cudaStream_t stream();

/// Errors: kFailed with what was tried, the name of the code and its text.
void check(cudaError_t code, const std::string& what);

/// Loads cuBLASLt; returns the bytes of workspace that it wants. Errors: kUsage when it is not
/// there.
std::size_t open_cublaslt();
/// See Platform::multiply.
void multiply_by_cublaslt(const Multiply& m);

}  // namespace headloom::cuda
