#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace headloom {

/// Saves the trainer as run/checkpoints/step-XXXXXXXX and points run/latest at it. Written beside,
/// fsynced, renamed: a reader, or a crash, sees a whole checkpoint or none. Then removes all but
/// the `keep` newest. Returns the folder.
/// `end_of_text` goes into the config for transformers; -1: the last token.
std::filesystem::path save_checkpoint(const std::filesystem::path& run, const Trainer& trainer,
                                      std::int64_t keep, std::int64_t end_of_text = -1);

/// Complete checkpoints of a run, the newest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run);

/// The checkpoint to use: the newest one, or that of `step` when step >= 0.
/// Errors: kFailed, naming what is there.
std::filesystem::path find_checkpoint(const std::filesystem::path& run, std::int64_t step = -1);

/// Reads weights only. Errors: a damaged, missing or surplus tensor, by name; wrong checksums.
void load_parameters(const std::filesystem::path& checkpoint, const ParameterLayout& layout,
                     float* parameters);

/// Restores weights, optimizer and position.
void load_checkpoint(const std::filesystem::path& checkpoint, Trainer& trainer);

}  // namespace headloom
