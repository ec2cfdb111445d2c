#include <utility>

#include "model/config.h"

namespace headloom {
namespace {

ModelConfig andrea(std::int64_t d_model, std::int64_t heads, std::int64_t layers,
                   std::int64_t context, std::int64_t vocab) {
  ModelConfig config;
  config.vocab_size = vocab;
  config.context = context;
  config.d_model = d_model;
  config.n_layers = layers;
  config.n_heads = {heads};
  return config;
}

ModelConfig gpt2_124m() {
  ModelConfig config = andrea(768, 12, 12, 1024, 50257);
  config.norm = NormKind::kLayerNorm;
  config.norm_gain = true;
  config.norm_bias = true;
  config.activation = Activation::kGeluTanh;
  config.bias = true;
  config.tied = true;
  return config;
}

std::vector<std::pair<std::string, ModelConfig>> presets() {
  ModelConfig nano = andrea(128, 4, 4, 256, 1025);
  nano.init_std = 0.05;  // 0.02 is made for widths of 768; a narrow model starts too quietly on it.
  return {{"andrea-nano", nano},
          {"andrea-12m", andrea(384, 12, 6, 1024, 2305)},
          {"andrea-120m", andrea(768, 12, 12, 1024, 8449)},
          {"andrea-480m", andrea(1536, 24, 16, 1024, 8449)},
          {"gpt2-124m", gpt2_124m()}};
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : presets()) names.push_back(name);
  return names;
}

ModelConfig preset(const std::string& name) {
  for (const auto& [known, config] : presets()) {
    if (known == name) return config;
  }
  fail_usage("unknown preset {}{} The presets are {}.", name, did_you_mean(name, preset_names()),
             fmt::join(preset_names(), ", "));
}

}  // namespace headloom
