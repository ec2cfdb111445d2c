#include "train/hugging_face.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "formats/safetensors.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "transformer.";
constexpr const char* kHead = "lm_head.weight";

/// A published GPT-2 and the way in which its tensors are named and laid out.
class Gpt2File {
 public:
  explicit Gpt2File(const fs::path& folder) : path_(folder / "model.safetensors"), file_(path_) {
    prefixed_ = file_.tensors().contains("transformer.wte.weight");
    const auto fused = file_.tensors().find(stored_name("transformer.h.0.attn.c_attn.weight"));
    // Q, K and V lie side by side, so the fused matrix shows which way round matrices are.
    transposed_ = fused != file_.tensors().end() && fused->second.shape.size() == 2 &&
                  fused->second.shape[0] > fused->second.shape[1];
  }

  bool has_head() const { return file_.tensors().contains(kHead); }

  void read(const ParameterInfo& info, float* to) {
    const std::string name = stored_name(info.name);
    used_.insert(name);
    const bool linear = info.shape.size() == 2 && info.layer >= 0;
    if (!linear || !transposed_) {
      file_.read_f32(name, info.shape, to);
      return;
    }
    const std::int64_t in = info.shape[0], out = info.shape[1];
    std::vector<float> stored(static_cast<std::size_t>(in * out));
    file_.read_f32(name, {out, in}, stored.data());
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t j = 0; j < out; ++j) {
        to[i * out + j] = stored[static_cast<std::size_t>(j * in + i)];
      }
    }
  }

  /// What was not read must be known to carry no weights.
  void check_rest() const {
    for (const auto& [name, tensor] : file_.tensors()) {
      const bool mask = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
      if (!used_.contains(name) && !mask && name != kHead) {
        fail("{}: tensor {} has no place in the model that its config.json describes",
             path_.string(), name);
      }
    }
  }

 private:
  std::string stored_name(const std::string& name) const {
    return !prefixed_ && name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  }

  fs::path path_;
  SafetensorsFile file_;
  bool prefixed_ = true;
  bool transposed_ = false;
  std::set<std::string> used_;
};

Activation activation_named(const std::string& name, const fs::path& file) {
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  fail("{}: activation_function {} is not supported; gelu_new, gelu_pytorch_tanh and relu are",
       file.string(), name);
}

/// An integer key; transformers writes null where its default applies.
std::int64_t integer(const Json& config, const char* key, std::int64_t otherwise) {
  const auto found = config.find(key);
  return found == config.end() || found->is_null() ? otherwise : found->get<std::int64_t>();
}

ModelConfig parse_config(const Json& json, const fs::path& file) {
  if (json.value("model_type", "") != "gpt2") {
    fail("{}: model_type {} is not supported, \"gpt2\" is", file.string(),
         json.value("model_type", Json()).dump());
  }
  for (const auto& [key, usual] : {std::pair("scale_attn_weights", true),
                                   std::pair("scale_attn_by_inverse_layer_idx", false)}) {
    if (json.value(key, usual) != usual) {
      fail("{}: {} {} is not supported, {} is", file.string(), key, !usual, usual);
    }
  }
  ModelConfig config = preset("gpt2-124m");
  config.vocab_size = integer(json, "vocab_size", 50257);
  config.context = integer(json, "n_positions", 1024);
  config.d_model = integer(json, "n_embd", 768);
  config.n_layers = integer(json, "n_layer", 12);
  config.n_heads = {integer(json, "n_head", 12)};
  config.d_mlp = integer(json, "n_inner", 0);
  config.norm_eps = json.value("layer_norm_epsilon", 1e-5);
  config.activation = activation_named(json.value("activation_function", "gelu_new"), file);
  config.tied = json.value("tie_word_embeddings", true);
  return config;
}

}  // namespace

Json hugging_face_config(const ModelConfig& config, std::int64_t end_of_text) {
  if (end_of_text < 0) end_of_text = config.vocab_size - 1;
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", config.vocab_size},
          {"n_positions", config.context},
          {"n_ctx", config.context},
          {"n_embd", config.d_model},
          {"n_layer", config.n_layers},
          {"n_head", config.heads_in(0)},
          {"n_inner", config.mlp_width()},
          {"activation_function", config.activation == Activation::kRelu ? "relu" : "gelu_new"},
          {"layer_norm_epsilon", config.norm_eps},
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"tie_word_embeddings", config.tied},
          {"bos_token_id", end_of_text},
          {"eos_token_id", end_of_text},
          {"torch_dtype", "float32"}};
}

bool is_hugging_face_folder(const fs::path& folder) {
  return fs::exists(folder / "config.json") && fs::exists(folder / "model.safetensors");
}

ModelConfig read_hugging_face_config(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  try {
    ModelConfig config = parse_config(Json::parse(read_file(file)), file);
    if (!config.tied) config.tied = !Gpt2File(folder).has_head();
    config.validate();
    return config;
  } catch (const Json::exception& error) {
    fail("{}: {}", file.string(), error.what());
  }
}

void read_hugging_face_parameters(const fs::path& folder, const ParameterLayout& layout,
                                  float* parameters) {
  Gpt2File file(folder);
  for (const ParameterInfo& info : layout.tensors()) file.read(info, parameters + info.offset);
  file.check_rest();
}

}  // namespace headloom
