#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ops/number.h"
#include "tensor/view.h"

namespace headloom::test {

/// Normal random numbers times `scale`, the same for the same seed in every number type.
template <class T>
std::vector<T> random_numbers(std::int64_t count, std::uint64_t seed, double scale = 1.0) {
  Rng rng(seed);
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (T& x : numbers) x = T(static_cast<float>(scale * rng.normal()));
  return numbers;
}

template <class T>
Matrix<T> matrix(std::vector<T>& numbers, std::int64_t rows, std::int64_t cols) {
  return {numbers.data(), rows, cols};
}

/// "" when every number is within `tolerance` of the tensor's largest magnitude (at least
/// `floor`), else a description of the first that is not.
std::string compare(const char* tensor, const std::vector<float>& given,
                    const std::vector<float>& wanted, double tolerance, double floor = 1e-30);

/// Step of the complex-step derivative: far below rounding, so the real part stays what it was.
inline constexpr double kComplexStep = 1e-100;

}  // namespace headloom::test
