#pragma once

namespace headloom {

/// Makes the device "cuda" known to open_backend.
void add_cuda_backend();

}  // namespace headloom
