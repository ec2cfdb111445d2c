#include "train/checkpoint.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "formats/safetensors.h"
#include "train/hugging_face.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

constexpr int kStateFormat = 1;

std::string folder_name(std::int64_t step) {
  return fmt::format("step-{:08}", step);
}

/// Step of a checkpoint folder, -1 when the name is not one.
std::int64_t step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with("step-") || name.size() < 13) return -1;
  const std::string digits = name.substr(5);
  const bool numeric = std::all_of(digits.begin(), digits.end(),
                                   [](unsigned char c) { return c >= '0' && c <= '9'; });
  return numeric && digits.size() < 18 ? std::stoll(digits) : -1;
}

std::vector<TensorToWrite> tensors_to_write(const ParameterLayout& layout, const float* base,
                                            const std::string& prefix) {
  std::vector<TensorToWrite> tensors;
  for (const ParameterInfo& info : layout.tensors()) {
    tensors.push_back({prefix + info.name, info.shape, base + info.offset});
  }
  return tensors;
}

void read_tensors(const SafetensorsFile& file, const ParameterLayout& layout,
                  const std::string& prefix, float* base) {
  for (const ParameterInfo& info : layout.tensors()) {
    file.read_f32(prefix + info.name, info.shape, base + info.offset);
  }
}

/// The state carries a checksum of itself, so that no flipped bit in it goes unnoticed either.
std::string seal(Json state) {
  state["checksum"] = hash_hex(hash_bytes(state.dump()));
  return state.dump(1) + "\n";
}

Json read_state(const fs::path& checkpoint) {
  const fs::path file = checkpoint / "state.json";
  const std::string text = read_file(file);
  try {
    const Json sealed = Json::parse(text);
    Json state = sealed;
    state.erase("checksum");
    if (seal(state) != text) fail("{}: damaged (its checksum does not match)", file.string());
    if (state.at("format") != kStateFormat) {
      fail("{}: format {} is not known, {} is", file.string(), state.at("format").dump(),
           kStateFormat);
    }
    return state;
  } catch (const Json::exception& error) {
    fail("{}: damaged: {}", file.string(), error.what());
  }
}

/// Opens one of the checkpoint's files after comparing it with its checksum.
SafetensorsFile open_checked(const fs::path& checkpoint, const Json& state, const char* name) {
  const fs::path path = checkpoint / name;
  const std::string wanted = state.at("files").at(name).get<std::string>();
  const std::string found = hash_hex(hash_bytes(MappedFile(path).text()));
  if (found != wanted) {
    fail("{}: damaged (its checksum is {}, wanted {})", path.string(), found, wanted);
  }
  return SafetensorsFile(path);
}

void check_no_surplus(const SafetensorsFile& file, std::size_t wanted, const fs::path& path) {
  if (file.tensors().size() != wanted) {
    fail("{}: {} tensors, the config wants {}", path.string(), file.tensors().size(), wanted);
  }
}

void read_parameters(const fs::path& checkpoint, const Json& state, const ParameterLayout& layout,
                     float* parameters) {
  const SafetensorsFile file = open_checked(checkpoint, state, "model.safetensors");
  check_no_surplus(file, layout.tensors().size(), checkpoint / "model.safetensors");
  read_tensors(file, layout, "", parameters);
}

void point_latest(const fs::path& run, const std::string& name) {
  const fs::path link = run / "latest", temporary = run / "latest.tmp";
  fs::remove(temporary);
  fs::create_directory_symlink(fs::path("checkpoints") / name, temporary);
  fs::rename(temporary, link);
  sync_directory(run);
}

void remove_old(const fs::path& run, std::int64_t keep) {
  const std::vector<fs::path> all = list_checkpoints(run);
  for (std::size_t i = static_cast<std::size_t>(keep); i < all.size(); ++i) {
    // Under another name first: a reader never finds a checkpoint with half its files gone.
    fs::path doomed = all[i];
    doomed += ".removed";
    fs::rename(all[i], doomed);
    fs::remove_all(doomed);
  }
}

std::vector<TensorToWrite> optimizer_tensors(const ParameterLayout& layout, const float* m,
                                             const float* v) {
  std::vector<TensorToWrite> tensors = tensors_to_write(layout, m, "m.");
  const std::vector<TensorToWrite> second = tensors_to_write(layout, v, "v.");
  tensors.insert(tensors.end(), second.begin(), second.end());
  return tensors;
}

void write_files(const fs::path& folder, const Trainer& trainer, std::int64_t end_of_text) {
  const RunConfig& config = trainer.config();
  Json files = Json::object();
  const HostNumbers<float> parameters = trainer.parameters().on_host(),
                           m = trainer.moment1().on_host(), v = trainer.moment2().on_host();
  files["model.safetensors"] = hash_hex(write_safetensors(
      folder / "model.safetensors", tensors_to_write(trainer.layout(), parameters.data(), ""),
      {{"format", "pt"}}));
  files["optimizer.safetensors"] = hash_hex(write_safetensors(
      folder / "optimizer.safetensors", optimizer_tensors(trainer.layout(), m.data(), v.data()),
      {{"format", "pt"}}));
  if (config.model.is_gpt2_shaped()) {
    write_file_atomic(folder / "config.json",
                      hugging_face_config(config.model, end_of_text).dump(2) + "\n");
  }
  const Json state = {
      {"format", kStateFormat},
      {"step", trainer.steps_done()},
      {"seed", config.train.seed},
      {"data", {{"epoch", trainer.batches().epoch()}, {"cursor", trainer.batches().cursor()}}},
      {"schedule",
       {{"steps", config.train.steps},
        {"decay_steps", config.train.decay_steps},
        {"warmup", config.train.warmup},
        {"learning_rate", config.train.learning_rate},
        {"min_lr_fraction", config.train.min_lr_fraction}}},
      {"files", files}};
  write_file_atomic(folder / "state.json", seal(state));
}

}  // namespace

std::vector<fs::path> list_checkpoints(const fs::path& run) {
  std::vector<fs::path> found;
  const fs::path folder = run / "checkpoints";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (step_of(entry.path()) >= 0 && fs::exists(entry.path() / "state.json")) {
      found.push_back(entry.path());
    }
  }
  // By number, not by name: step 10000000000 comes after step 99999999.
  std::sort(found.begin(), found.end(),
            [](const fs::path& a, const fs::path& b) { return step_of(a) > step_of(b); });
  return found;
}

fs::path find_checkpoint(const fs::path& run, std::int64_t step) {
  const std::vector<fs::path> all = list_checkpoints(run);
  if (all.empty()) fail("{} holds no checkpoint", run.string());
  if (step < 0) return all[0];
  for (const fs::path& folder : all) {
    if (step_of(folder) == step) return folder;
  }
  std::vector<std::int64_t> steps;
  for (const fs::path& folder : all) steps.push_back(step_of(folder));
  fail("{} holds no checkpoint of step {}; it has {}", run.string(), step, fmt::join(steps, ", "));
}

fs::path save_checkpoint(const fs::path& run, const Trainer& trainer, std::int64_t keep,
                         std::int64_t end_of_text) {
  const std::string name = folder_name(trainer.steps_done());
  const fs::path parent = run / "checkpoints", folder = parent / name;
  fs::path temporary = folder;
  temporary += ".tmp";
  fs::create_directories(parent);
  fs::remove_all(temporary);
  fs::create_directory(temporary);
  write_files(temporary, trainer, end_of_text);
  sync_directory(temporary);
  if (fs::exists(folder)) fs::remove_all(folder);
  fs::rename(temporary, folder);
  sync_directory(parent);
  point_latest(run, name);
  remove_old(run, keep);
  return folder;
}

void load_parameters(const fs::path& checkpoint, const ParameterLayout& layout, float* parameters) {
  read_parameters(checkpoint, read_state(checkpoint), layout, parameters);
}

void load_checkpoint(const fs::path& checkpoint, Trainer& trainer) {
  const Json state = read_state(checkpoint);
  const ParameterLayout& layout = trainer.layout();
  trainer.parameters().write(
      [&](float* numbers) { read_parameters(checkpoint, state, layout, numbers); });
  const SafetensorsFile optimizer = open_checked(checkpoint, state, "optimizer.safetensors");
  check_no_surplus(optimizer, 2 * trainer.layout().tensors().size(),
                   checkpoint / "optimizer.safetensors");
  trainer.moment1().write([&](float* m) { read_tensors(optimizer, layout, "m.", m); });
  trainer.moment2().write([&](float* v) { read_tensors(optimizer, layout, "v.", v); });
  trainer.restore_position(state.at("step").get<std::int64_t>(),
                           state.at("data").at("epoch").get<std::int64_t>(),
                           state.at("data").at("cursor").get<std::int64_t>());
}

}  // namespace headloom
