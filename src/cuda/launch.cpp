// What every launch of a kernel needs of the card (simt_device.h).
#include <map>

#include "cuda/card.h"

#include "base/error.h"
#include "simt/simt.h"

namespace headloom::simt {

void* launch_stream() {
  return cuda::stream();
}

bool wants_more_shared(const void* kernel, std::size_t bytes) {
  // Every kernel may have 48 KB; 40 of them leave room for its static arrays.
  constexpr std::size_t kAlways = 40 << 10;
  static std::map<const void*, std::size_t> allowed;
  if (bytes <= kAlways) return false;
  std::size_t& most = allowed[kernel];
  if (bytes <= most) return false;
  most = bytes;
  return true;
}

void check_launch(int code, const char* name, const LaunchShape& s) {
  auto error = static_cast<cudaError_t>(code);
#if !defined(NDEBUG)
  // Debug builds wait for every kernel, so that what goes wrong in one is not reported by the next.
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  if (error == cudaSuccess) error = cudaStreamIsCapturing(cuda::stream(), &capturing);
  if (error == cudaSuccess && capturing == cudaStreamCaptureStatusNone) {
    error = cudaStreamSynchronize(cuda::stream());
  }
#endif
  if (error == cudaSuccess) return;
  cuda::check(error, fmt::format("{}, grid [{}, {}, {}], block [{}, {}, {}], {} bytes of dynamic "
                                 "shared memory",
                                 name, s.grid.x, s.grid.y, s.grid.z, s.block.x, s.block.y,
                                 s.block.z, s.dynamic_shared));
}

}  // namespace headloom::simt
