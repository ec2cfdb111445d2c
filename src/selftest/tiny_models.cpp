#include "selftest/tiny_models.h"

namespace headloom::test {

ModelConfig tiny_andrea() {
  ModelConfig config;
  config.vocab_size = 13;
  config.context = 8;
  config.d_model = 8;
  config.n_layers = 2;
  config.n_heads = {2};
  config.d_mlp = 12;
  return config;
}

ModelConfig tiny_gpt2() {
  ModelConfig config = tiny_andrea();
  config.norm = NormKind::kLayerNorm;
  config.norm_gain = config.norm_bias = config.bias = config.tied = true;
  config.activation = Activation::kGeluTanh;
  return config;
}

ModelConfig tiny_odd() {
  ModelConfig config = tiny_andrea();
  config.n_heads = {4, 2};
  config.n_kv_heads = 2;
  config.head_dim = 3;
  config.norm_gain = true;
  config.activation = Activation::kRelu;
  return config;
}

ModelConfig tiny_llama() {
  ModelConfig config = tiny_andrea();
  config.n_heads = {4};
  config.n_kv_heads = 2;
  config.head_dim = 6;
  config.norm_gain = true;
  config.activation = Activation::kSwiGlu;
  config.positions = Positions::kRope;
  return config;
}

Tokens::Tokens(std::int64_t batch, std::int64_t seq, std::int64_t vocab, std::uint64_t seed)
    : batch(batch), seq(seq) {
  Rng rng(seed);
  for (std::int64_t i = 0; i < batch * seq; ++i) {
    inputs.push_back(static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(vocab))));
    targets.push_back(static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(vocab))));
  }
  targets.back() = kIgnoredTarget;
}

}  // namespace headloom::test
