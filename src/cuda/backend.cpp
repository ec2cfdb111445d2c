#include "cuda/backend.h"

#include "cuda/card.h"
#include "cuda/platform.h"

namespace headloom {
namespace {

const Ops<float>& open(Precision precision) {
  const Device& card = cuda::card();  // first: without one there is no need of cuBLASLt
  static const cuda::Platform platform{"cuda", &card, cuda::multiply_by_cublaslt,
                                       cuda::open_cublaslt()};
  return cuda::ops_on(platform, precision);
}

}  // namespace

void add_cuda_backend() {
  add_backend("cuda", open);
}

}  // namespace headloom
