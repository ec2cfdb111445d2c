#pragma once

#include "train/request.h"

namespace headloom {

/// Trains from beginning to end: tokenizer, token cache, steps with progress on stderr, metrics,
/// validation, samples and checkpoints under the run's folder.
/// Returns the exit code: 0, or 128 + n when signal n stopped the run after saving.
/// Errors: kUsage for a config that does not work or a folder that holds a run already; kDiverged
/// when training diverged, the last good checkpoint left in place.
/// `validation_loss`, when given, gets the last held-out loss, NaN when nothing is held out.
int train_run(const TrainRequest& request, double* validation_loss = nullptr);

}  // namespace headloom
