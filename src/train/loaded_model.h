#pragma once

#include <filesystem>

#include "model/parameters.h"
#include "tokenizer/tokenizer.h"

namespace headloom {

/// A model with its weights and its tokenizer, as found in a folder.
struct LoadedModel {
  ModelConfig config;
  Tokenizer tokenizer;
  ParameterLayout layout;
  ParameterArray<float> parameters;
};

/// The weights of a model in the memory of a device: moved out of it where that is the host, else
/// copied.
ParameterArray<float> on_device(LoadedModel& model, const Device& device);

/// Config of the model in a folder: a run's config.toml, or GPT-2's config.json as published.
/// Errors: names the folder and what it lacks.
ModelConfig read_model_config(const std::filesystem::path& folder);

/// Loads the newest checkpoint of a run, or that of `step` when step >= 0; or a published GPT-2.
/// Errors: kFailed, naming the file and what is wrong with it.
LoadedModel load_model(const std::filesystem::path& folder, std::int64_t step = -1);

}  // namespace headloom
