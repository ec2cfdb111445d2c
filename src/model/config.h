#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention/head_layout.h"
#include "base/fields.h"
#include "ops/activation.h"
#include "ops/norm.h"

namespace headloom {

enum class Positions { kLearned, kRope };
template <>
struct EnumNames<Positions> {
  static constexpr std::string_view kNames[] = {"learned", "rope"};
};

/// The architecture of a model. Every difference between GPT-2 and ANDREA shapes is a field here,
/// never a second code path.
struct ModelConfig {
  std::int64_t vocab_size = 2305;
  std::int64_t context = 1024;
  std::int64_t d_model = 384;
  std::int64_t n_layers = 6;
  std::vector<std::int64_t> n_heads = {12};
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t d_mlp = 0;
  NormKind norm = NormKind::kRmsNorm;
  bool norm_gain = false;
  bool norm_bias = false;
  double norm_eps = 1e-5;
  Activation activation = Activation::kRelu2;
  bool bias = false;
  bool tied = false;
  Positions positions = Positions::kLearned;
  double rope_base = 10000.0;
  double init_std = 0.02;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& field) {
    field("vocab_size", "number of token ids", self.vocab_size);
    field("context", "longest sequence, in tokens", self.context);
    field("d_model", "width of the residual stream", self.d_model);
    field("n_layers", "number of blocks", self.n_layers);
    field("n_heads", "attention heads, or a list with one number per layer", self.n_heads);
    field("n_kv_heads", "key/value heads shared by groups of heads; 0: n_heads", self.n_kv_heads);
    field("head_dim", "width of a head; 0: d_model / n_heads", self.head_dim);
    field("d_mlp", "width of the hidden layer of the MLP; 0: 4 x d_model (swiglu: 8/3 of it)",
          self.d_mlp);
    field("norm", "layernorm or rmsnorm", self.norm);
    field("norm_gain", "norms have a learned gain", self.norm_gain);
    field("norm_bias", "norms have a learned bias", self.norm_bias);
    field("norm_eps", "added to the variance under the root", self.norm_eps);
    field("activation", "gelu_tanh, relu, relu2 or swiglu", self.activation);
    field("bias", "linear layers have biases", self.bias);
    field("tied", "the output head is the token table", self.tied);
    field("positions", "learned or rope", self.positions);
    field("rope_base", "base of rope's angles", self.rope_base);
    field("init_std", "standard deviation of initial weights", self.init_std);
  }

  std::int64_t heads_in(std::int64_t layer) const {
    return n_heads.size() == 1 ? n_heads[0] : n_heads[static_cast<std::size_t>(layer)];
  }
  /// Heads in all layers before this one; first_head(n_layers) is the number of all heads.
  std::int64_t first_head(std::int64_t layer) const {
    std::int64_t sum = 0;
    for (std::int64_t l = 0; l < layer; ++l) sum += heads_in(l);
    return sum;
  }
  HeadLayout head_layout(std::int64_t layer) const;
  /// F. A gated MLP has three matrices instead of two, so two thirds of the width by default, to
  /// the next multiple of 64.
  std::int64_t mlp_width() const {
    if (d_mlp != 0) return d_mlp;
    return is_gated(activation) ? (8 * d_model / 3 + 63) / 64 * 64 : 4 * d_model;
  }
  /// Columns before the activation: a gated one takes two and makes one.
  std::int64_t mlp_in_width() const { return (is_gated(activation) ? 2 : 1) * mlp_width(); }
  /// rope_base for the attention steps: 0 without rope.
  double attention_rope_base() const { return positions == Positions::kRope ? rope_base : 0.0; }
  /// V rounded up so that rows of logits start on a cache line; the rest is padding.
  std::int64_t padded_vocab() const { return (vocab_size + 15) / 16 * 16; }

  /// True when transformers' GPT2LMHeadModel can hold exactly this model.
  bool is_gpt2_shaped() const;

  /// Errors: kUsage with every violation at once, each with the values and what would work.
  void validate() const;
};

/// Every violation of `config`, one sentence each; empty when it is valid.
std::vector<std::string> config_violations(const ModelConfig& config);

/// The named architectures: andrea-nano, andrea-12m, andrea-120m, andrea-480m, gpt2-124m.
std::vector<std::string> preset_names();

/// Errors: kUsage, suggesting the nearest name.
ModelConfig preset(const std::string& name);

}  // namespace headloom
