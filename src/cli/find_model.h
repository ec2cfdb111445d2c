#pragma once

#include <string>

#include "model/config.h"

namespace headloom {

/// The model that a preset's name, a config file or a run's folder stands for.
ModelConfig find_model(const std::string& name);

}  // namespace headloom
