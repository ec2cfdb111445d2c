#pragma once

#include <cstdint>
#include <cstdlib>

namespace headloom::test {

/// Orders of lanes and blocks that kernels are tested in; scripts/plant wants fewer.
inline std::uint64_t lane_orders() {
  const char* given = std::getenv("HEADLOOM_ORDERS");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20;
}

}  // namespace headloom::test
