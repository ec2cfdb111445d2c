#pragma once

namespace headloom {

/// Makes the device "cuda" known to open_backend; does nothing in a build without CUDA.
#if defined(HEADLOOM_CUDA)
void add_cuda_backend();
#else
inline void add_cuda_backend() {}
#endif

}  // namespace headloom
