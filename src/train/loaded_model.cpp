#include "train/loaded_model.h"

#include "base/error.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/hugging_face.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

bool is_run(const fs::path& folder) {
  return fs::exists(folder / "config.toml");
}

Tokenizer load_tokenizer(const fs::path& folder) {
  const fs::path file = folder / "tokenizer.json";
  return Tokenizer::load(is_run(folder) || fs::exists(file) ? file : folder);
}

}  // namespace

ModelConfig read_model_config(const fs::path& folder) {
  if (is_run(folder)) return read_run_config(folder / "config.toml").model;
  if (is_hugging_face_folder(folder)) return read_hugging_face_config(folder);
  fail(
      "{} holds no model: neither a run (config.toml) nor a published GPT-2 (config.json and "
      "model.safetensors)",
      folder.string());
}

LoadedModel load_model(const fs::path& folder, std::int64_t step) {
  const ModelConfig config = read_model_config(folder);
  const ParameterLayout layout(config);
  LoadedModel model{config, load_tokenizer(folder), layout, ParameterArray<float>(layout)};
  if (is_run(folder)) {
    load_parameters(find_checkpoint(folder, step), layout, model.parameters.data());
  } else {
    if (step >= 0) {
      fail_usage("{} is a published model, not a run; it has no checkpoint of step {}",
                 folder.string(), step);
    }
    read_hugging_face_parameters(folder, layout, model.parameters.data());
  }
  if (model.tokenizer.vocab_size() > config.vocab_size) {
    fail("{}: the tokenizer has {} tokens, the model only {}", folder.string(),
         model.tokenizer.vocab_size(), config.vocab_size);
  }
  return model;
}

ParameterArray<float> on_device(LoadedModel& model, const Device& device) {
  if (device.is_host) return std::move(model.parameters);
  ParameterArray<float> copy(model.layout, device);
  copy.write([&](float* numbers) {
    std::copy_n(model.parameters.data(), model.layout.stored(), numbers);
  });
  return copy;
}

}  // namespace headloom
