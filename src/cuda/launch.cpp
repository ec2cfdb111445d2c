// What every launch of a kernel needs of the card (simt_device.h).
#include "cuda/device.h"

#include "base/error.h"
#include "simt/simt.h"

namespace headloom::simt {

void* launch_stream() {
  return cuda::stream();
}

void check_launch(int code, const char* name, const LaunchShape& s) {
  auto error = static_cast<cudaError_t>(code);
#if !defined(NDEBUG)
  // Debug builds wait for every kernel, so that what goes wrong in one is not reported by the next.
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(cuda::stream(), &capturing);
  if (error == cudaSuccess && capturing == cudaStreamCaptureStatusNone) {
    error = cudaStreamSynchronize(cuda::stream());
  }
#endif
  cuda::check(error, fmt::format("{}, grid [{}, {}, {}], block [{}, {}, {}], {} bytes of dynamic "
                                 "shared memory",
                                 name, s.grid.x, s.grid.y, s.grid.z, s.block.x, s.block.y,
                                 s.block.z, s.dynamic_shared));
}

}  // namespace headloom::simt
