#pragma once

#include <filesystem>

#include "model/parameters.h"

/// GPT-2 as transformers saves it: a folder with config.json, model.safetensors and a tokenizer.
namespace headloom {

/// The config.json of a GPT-2 shaped model, for transformers' GPT2LMHeadModel. `end_of_text` is the
/// id that ends documents; -1: the last one.
Json hugging_face_config(const ModelConfig& config, std::int64_t end_of_text);

/// True when `folder` holds a model in this layout.
bool is_hugging_face_folder(const std::filesystem::path& folder);

/// The inverse of hugging_face_config, with transformers' defaults for what is missing. A model
/// whose file has no output head of its own is tied, whatever its config says.
/// Errors: names the file, and a key whose value is not supported.
ModelConfig read_hugging_face_config(const std::filesystem::path& folder);

/// Reads GPT-2's weights as they are found: names with or without `transformer.`, buffers of the
/// attention mask skipped, the copy of a tied head skipped, matrices [in, out] as in transformers
/// or [out, in] as trainers with plain linear layers save them. Errors: a missing, surplus or
/// wrongly shaped tensor, by name.
void read_hugging_face_parameters(const std::filesystem::path& folder,
                                  const ParameterLayout& layout, float* parameters);

}  // namespace headloom
