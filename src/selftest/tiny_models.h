#pragma once

#include <vector>

#include "model/gpt.h"
#include "selftest/numbers.h"

namespace headloom::test {

/// A tiny model of GPT-2's shape: layernorm with gain and bias, biases, tied head, tanh-GELU.
ModelConfig tiny_gpt2();
/// A tiny model of ANDREA's shape: rmsnorm without gain, no biases, untied head, relu2.
ModelConfig tiny_andrea();
/// A tiny model with every irregularity: heads per layer, head_dim of its own, shared key heads.
ModelConfig tiny_odd();
/// A tiny model of LLaMA's shape: rope, swiglu, rmsnorm with gain, shared key heads.
ModelConfig tiny_llama();

/// Token ids for a batch, the same for the same seed. Targets are the next tokens; one is ignored.
struct Tokens {
  std::vector<std::int32_t> inputs, targets;
  std::int64_t batch, seq;

  Tokens(std::int64_t batch, std::int64_t seq, std::int64_t vocab, std::uint64_t seed = 9);
  TokenBatch view() const { return {inputs.data(), targets.data(), batch, seq}; }
};

/// A model with its parameters and gradients. All tensors, biases and gains too, are random.
template <class T>
struct TestModel {
  ModelConfig config;
  ParameterLayout layout;
  ParameterArray<T> parameters, gradients;
  Gpt<T> gpt;

  TestModel(const ModelConfig& c, const Ops<T>& ops, std::int64_t batch, std::int64_t seq,
            Use use = Use::kTraining)
      : config(c),
        layout(c),
        parameters(layout, *ops.device),
        gradients(layout, *ops.device),
        gpt(c, ops, parameters.data(), batch, seq, use) {
    parameters.write([&](T* numbers) {
      for (const ParameterInfo& info : layout.tensors()) {
        Rng rng(static_cast<std::uint64_t>(info.offset) + 1);
        for (std::int64_t i = 0; i < info.size(); ++i) {
          numbers[info.offset + i] = T(static_cast<float>(0.3 * rng.normal()));
        }
      }
    });
  }
  /// Loss of the batch and its gradient, each target weighing 1 / counted.
  Sum<T> run(const TokenBatch& batch) {
    gpt.ops().zero({gradients.data(), layout.stored()});
    const auto scale = 1.0 / static_cast<double>(batch.counted());
    return gpt.accumulate_gradients(batch, scale, gradients.data()) * scale;
  }
};

}  // namespace headloom::test
