#pragma once

#include "model/gpt.h"

namespace headloom {

/// The workspace of a model as the CPU can read it: itself, or a copy of the device's, brought over
/// piece by piece when it is asked for.
class HostWorkspace {
 public:
  explicit HostWorkspace(const Gpt<float>& model);

  /// As the last pass left it; valid until the next call for the same layer.
  const BlockActivations<float>& block(std::int64_t layer);
  /// Stream, final norm and losses.
  const Workspace<float>& outside_blocks();

 private:
  void bring(const float* begin, const float* end);

  const Gpt<float>& model_;
  Device memory_;  ///< the host's, that lays tensors out like the model's device
  Workspace<float> copy_;
  Arena arena_;
  const Workspace<float>* work_;
};

}  // namespace headloom
