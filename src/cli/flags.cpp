#include "cli/flags.h"

#include <algorithm>

namespace headloom {

std::string flag_name(const std::string& key) {
  std::string name = "--" + key;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

}  // namespace headloom
