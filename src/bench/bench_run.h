#pragma once

#include "base/temporary.h"
#include "train/trainer.h"

namespace headloom {

/// A trainer on a little random text, for timing.
class BenchRun {
 public:
  BenchRun(const ModelConfig& config, std::int64_t batch, const Ops<float>& ops);

  Trainer& trainer() { return trainer_; }
  const TokenCache& tokens() const { return tokens_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  TemporaryFolder folder_;
  Tokenizer tokenizer_;
  TokenCache tokens_;
  Trainer trainer_;
};

}  // namespace headloom
