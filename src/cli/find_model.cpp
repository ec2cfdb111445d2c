#include "cli/find_model.h"

#include <filesystem>

#include "train/config.h"
#include "train/loaded_model.h"

namespace headloom {

ModelConfig find_model(const std::string& name) {
  namespace fs = std::filesystem;
  if (fs::is_directory(name)) return read_model_config(name);
  if (fs::is_regular_file(name)) return read_run_config(name).model;
  return preset(name);
}

}  // namespace headloom
