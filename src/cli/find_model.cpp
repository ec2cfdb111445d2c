#include "cli/find_model.h"

#include <filesystem>

#include "train/config.h"

namespace headloom {

ModelConfig find_model(const std::string& name) {
  namespace fs = std::filesystem;
  if (fs::is_directory(name)) return read_run_config(fs::path(name) / "config.toml").model;
  if (fs::is_regular_file(name)) return read_run_config(name).model;
  return preset(name);
}

}  // namespace headloom
