#include "cuda/backend.h"

#include "cuda/device.h"
#include "ops/cuda_platform.h"

namespace headloom {
namespace {

const Ops<float>& open(Precision precision) {
  static const cuda::Platform platform{"cuda", &cuda::card(), cuda::multiply_by_cublaslt};
  return cuda::ops_on(platform, precision);
}

}  // namespace

void add_cuda_backend() {
  add_backend("cuda", open);
}

}  // namespace headloom
