#pragma once

#include <optional>
#include <span>

#include "model/gpt.h"

namespace headloom {

/// Decodes one sequence with a cache of keys and values, through the same blocks as training.
class Decoder {
 public:
  /// Parameters lie in the memory of ops.device. `prompt_chunk` is how many tokens of a prompt go
  /// through the model at a time.
  Decoder(const ModelConfig& config, const Ops<float>& ops, float* parameters,
          std::int64_t prompt_chunk = 256);

  /// Forgets the sequence.
  void reset();
  /// Positions in the cache.
  std::int64_t length() const { return caches_[0].length; }
  std::int64_t context() const { return model_.config().context; }

  /// Appends tokens and returns the logits after the last of them, [V], valid until the next call.
  /// Errors: kUsage when the sequence would outgrow the context.
  std::span<const float> feed(std::span<const std::int32_t> ids);

 private:
  Gpt<float> model_;
  std::vector<KvCache<float>> caches_;
  Matrix<float> logits_;
  std::optional<HostNumbers<float>> host_logits_;
  std::int64_t prompt_chunk_;
  Arena arena_;
};

}  // namespace headloom
