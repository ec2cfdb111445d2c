#include "model/config.h"

#include <algorithm>

namespace headloom {
namespace {

/// The divisors of n that a person would choose from, as "1, 2, 3, 4".
std::string divisors(std::int64_t n) {
  std::vector<std::int64_t> list;
  for (std::int64_t i = 1; i <= n && list.size() < 12; ++i) {
    if (n % i == 0) list.push_back(i);
  }
  return fmt::format("{}", fmt::join(list, ", "));
}

class Violations {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    list_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  void at_least(const char* key, std::int64_t value, std::int64_t least) {
    if (value < least) add("{} {} is too small; {} is the least", key, value, least);
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

void check_heads(const ModelConfig& c, Violations& found) {
  const auto layers = static_cast<std::int64_t>(c.n_heads.size());
  if (layers != 1 && layers != c.n_layers) {
    found.add("n_heads lists {} layers but n_layers is {}; give one number or {}", layers,
              c.n_layers, c.n_layers);
  }
  for (const std::int64_t heads : c.n_heads) {
    if (heads < 1) {
      found.add("n_heads {} is too small; 1 is the least", heads);
      continue;
    }
    if (c.head_dim == 0 && c.d_model % heads != 0) {
      found.add("d_model {} is not divisible by n_heads {}; {} works with {}, or set head_dim",
                c.d_model, heads, c.d_model, divisors(c.d_model));
    }
    if (c.n_kv_heads > 0 && heads % c.n_kv_heads != 0) {
      found.add("n_heads {} is not a multiple of n_kv_heads {}; {} works with {}", heads,
                c.n_kv_heads, heads, divisors(heads));
    }
  }
  const bool uniform = std::adjacent_find(c.n_heads.begin(), c.n_heads.end(),
                                          std::not_equal_to<>()) == c.n_heads.end();
  if (!uniform && c.head_dim == 0) {
    found.add(
        "n_heads differs between layers, so head_dim must be set; {} would be d_model {} / {}",
        c.d_model / std::max<std::int64_t>(1, c.n_heads[0]), c.d_model, c.n_heads[0]);
  }
}

void check_rope(const ModelConfig& c, Violations& found) {
  if (!(c.rope_base > 1)) {
    found.add("rope_base {} must be greater than 1; 10000 works", c.rope_base);
  }
  if (c.n_heads.empty() || c.n_heads[0] < 1) return;
  const std::int64_t dim = c.head_dim != 0 ? c.head_dim : c.d_model / c.n_heads[0];
  if (dim % 2 != 0) {
    found.add("positions rope turns pairs of dimensions, and head_dim {} is odd; {} works", dim,
              dim + 1);
  }
}

}  // namespace

HeadLayout ModelConfig::head_layout(std::int64_t layer) const {
  const std::int64_t heads = heads_in(layer);
  return {.heads = heads,
          .kv_heads = n_kv_heads != 0 ? n_kv_heads : heads,
          .head_dim = head_dim != 0 ? head_dim : d_model / heads};
}

bool ModelConfig::is_gpt2_shaped() const {
  const bool activation_known =
      activation == Activation::kGeluTanh || activation == Activation::kRelu;
  if (norm != NormKind::kLayerNorm || !norm_gain || !norm_bias || !bias || !activation_known) {
    return false;
  }
  if (positions != Positions::kLearned) return false;
  for (std::int64_t layer = 0; layer < n_layers; ++layer) {
    const HeadLayout layout = head_layout(layer);
    if (layout.kv_heads != layout.heads || layout.query_width() != d_model) return false;
    if (layout.heads != heads_in(0)) return false;
  }
  return true;
}

std::vector<std::string> config_violations(const ModelConfig& c) {
  Violations found;
  found.at_least("vocab_size", c.vocab_size, 1);
  found.at_least("context", c.context, 1);
  found.at_least("d_model", c.d_model, 1);
  found.at_least("n_layers", c.n_layers, 1);
  found.at_least("n_kv_heads", c.n_kv_heads, 0);
  found.at_least("head_dim", c.head_dim, 0);
  found.at_least("d_mlp", c.d_mlp, 0);
  if (c.vocab_size > INT32_MAX - 15) {
    found.add("vocab_size {} is too large; {} is the most", c.vocab_size, INT32_MAX - 15);
  }
  if (!(c.norm_eps > 0)) found.add("norm_eps {} must be positive; 1e-5 works", c.norm_eps);
  if (!(c.init_std > 0)) found.add("init_std {} must be positive; 0.02 works", c.init_std);
  if (c.norm_bias && c.norm == NormKind::kRmsNorm && !c.norm_gain) {
    found.add("norm_bias true without norm_gain is no known norm; set norm_gain = true");
  }
  if (c.positions == Positions::kRope) check_rope(c, found);
  check_heads(c, found);
  return found.take();
}

void ModelConfig::validate() const {
  const std::vector<std::string> found = config_violations(*this);
  if (!found.empty()) fail_usage("the model config does not work: {}", fmt::join(found, "; "));
}

}  // namespace headloom
