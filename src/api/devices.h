#pragma once

#include <cstdio>

#include "ops/backend.h"
#if defined(HEADLOOM_CUDA)
#include "cuda/backend.h"
#endif

namespace headloom {

/// The table of a device by name, in a library whose program has not made backends known.
inline const Ops<float>& open_device_named(const std::string& device,
                                           const std::string& precision) {
#if defined(HEADLOOM_CUDA)
  add_cuda_backend();
#endif
  std::string note;
  const Ops<float>& ops = open_backend({device, precision}, &note);
  if (!note.empty()) std::fprintf(stderr, "headloom: %s\n", note.c_str());
  return ops;
}

}  // namespace headloom
