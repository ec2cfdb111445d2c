#pragma once

#include "headloom/train.h"
#include "train/request.h"

namespace headloom {

/// A program's options as the request that a command line would make, heads being watched.
TrainRequest request_of(const TrainOptions& options);

/// Runs it and returns the held-out loss. Errors: also when a signal stopped it.
double run_to_end(const TrainRequest& request);

}  // namespace headloom
