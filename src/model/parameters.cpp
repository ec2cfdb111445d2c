#include "model/parameters.h"

#include <complex>
#include <functional>
#include <numeric>

namespace headloom {

std::int64_t ParameterInfo::size() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

ParameterLayout::ParameterLayout(const ModelConfig& config) : config_(config) {
  const std::int64_t c = config.d_model, v = config.vocab_size;
  const std::int64_t padding = config.padded_vocab() - v;
  add({.name = "transformer.wte.weight",
       .shape = {v, c},
       .group = ParameterGroup::kTokens,
       .decays = true},
      padding);
  if (config.positions == Positions::kLearned) {
    add({.name = "transformer.wpe.weight",
         .shape = {config.context, c},
         .group = ParameterGroup::kPositions,
         .decays = true});
  }
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) add_block(config, layer);
  add_norm(config, "transformer.ln_f", -1);
  if (!config.tied) {
    add({.name = "lm_head.weight", .shape = {v, c}, .group = ParameterGroup::kHead, .decays = true},
        padding);
  }
}

void ParameterLayout::add(ParameterInfo info, std::int64_t padding_rows) {
  const std::int64_t rows = info.shape[0];
  info.offset = stored_;
  info.stored = info.size() / rows * (rows + padding_rows);
  stored_ += (info.stored + 15) / 16 * 16;  // Every tensor starts on a cache line.
  tensors_.push_back(std::move(info));
}

void ParameterLayout::add_norm(const ModelConfig& config, const std::string& name,
                               std::int64_t layer) {
  ParameterInfo info{.shape = {config.d_model}, .layer = layer, .group = ParameterGroup::kNorms};
  info.name = name + ".weight";
  if (config.norm_gain) add(info);
  info.name = name + ".bias";
  if (config.norm_bias) add(info);
}

void ParameterLayout::add_linear(const ModelConfig& config, const std::string& name,
                                 std::int64_t in, std::int64_t out, ParameterInfo info) {
  info.name = name + ".weight";
  info.shape = {in, out};
  info.decays = true;
  add(info);
  if (!config.bias) return;
  info.name = name + ".bias";
  info.shape = {out};
  info.decays = false;
  info.residual = false;
  add(info);
}

void ParameterLayout::add_block(const ModelConfig& config, std::int64_t layer) {
  const std::string prefix = fmt::format("transformer.h.{}.", layer);
  const HeadLayout heads = config.head_layout(layer);
  const ParameterInfo attention{.layer = layer, .group = ParameterGroup::kAttention};
  const ParameterInfo mlp{.layer = layer, .group = ParameterGroup::kMlp};
  const auto residual = [](ParameterInfo info) {
    info.residual = true;
    return info;
  };
  const std::int64_t c = config.d_model, f = config.mlp_width();
  add_norm(config, prefix + "ln_1", layer);
  add_linear(config, prefix + "attn.c_attn", c, heads.fused_width(), attention);
  add_linear(config, prefix + "attn.c_proj", heads.query_width(), c, residual(attention));
  add_norm(config, prefix + "ln_2", layer);
  add_linear(config, prefix + "mlp.c_fc", c, config.mlp_in_width(), mlp);
  add_linear(config, prefix + "mlp.c_proj", f, c, residual(mlp));
}

std::int64_t ParameterLayout::count() const {
  std::int64_t sum = 0;
  for (const ParameterInfo& tensor : tensors_) sum += tensor.size();
  return sum;
}

std::int64_t ParameterLayout::count(ParameterGroup group) const {
  std::int64_t sum = 0;
  for (const ParameterInfo& tensor : tensors_) sum += tensor.group == group ? tensor.size() : 0;
  return sum;
}

template <class T>
ModelWeights<T> ParameterLayout::views(T* base) const {
  auto next = tensors_.begin();  // The calls below follow the order of the constructor.
  const auto matrix = [&] {
    const ParameterInfo& info = *next++;
    return Matrix<T>(base + info.offset, info.stored / info.shape[1], info.shape[1]);
  };
  const auto vector = [&](bool present) { return present ? base + (next++)->offset : nullptr; };
  const auto norm = [&] {
    T* gain = vector(config_.norm_gain);
    return NormWeights<T>{gain, vector(config_.norm_bias)};
  };
  const auto linear = [&] {
    const Matrix<T> weight = matrix();
    return LinearWeights<T>{weight, vector(config_.bias)};
  };
  ModelWeights<T> weights;
  weights.token_table = matrix();
  if (config_.positions == Positions::kLearned) weights.position_table = matrix();
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    BlockWeights<T> block;
    block.norm1 = norm();
    const LinearWeights<T> qkv = linear(), out = linear();
    block.attention = {qkv.weight, qkv.bias, out.weight, out.bias};
    block.norm2 = norm();
    block.mlp_in = linear();
    block.mlp_out = linear();
    weights.blocks.push_back(block);
  }
  weights.final_norm = norm();
  weights.head = config_.tied ? weights.token_table : matrix();
  return weights;
}

template ModelWeights<float> ParameterLayout::views(float*) const;
template ModelWeights<const float> ParameterLayout::views(const float*) const;
template ModelWeights<double> ParameterLayout::views(double*) const;
template ModelWeights<std::complex<double>> ParameterLayout::views(std::complex<double>*) const;

}  // namespace headloom
