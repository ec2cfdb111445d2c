#include "selftest/numbers.h"

#include <fmt/format.h>

#include <algorithm>

namespace headloom::test {

std::string compare(const char* tensor, const std::vector<float>& given,
                    const std::vector<float>& wanted, double tolerance, double floor) {
  if (given.size() != wanted.size()) return fmt::format("{}: sizes differ", tensor);
  double largest = floor;
  for (const float x : wanted) largest = std::max(largest, std::abs(static_cast<double>(x)));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double error = std::abs(static_cast<double>(given[i]) - static_cast<double>(wanted[i]));
    if (!(error <= tolerance * largest)) {
      return fmt::format("{}[{}] is {}, wanted {} (error {} of the largest, tolerance {})", tensor,
                         i, given[i], wanted[i], error / largest, tolerance);
    }
  }
  return "";
}

}  // namespace headloom::test
