#pragma once

#include <algorithm>
#include <vector>

namespace headloom {

/// The middle value (the upper one of two). Units: at least one value.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace headloom
