#pragma once

#include <cstdint>
#include <random>

namespace headloom {

/// Mixes numbers into one seed, so that every use of randomness (initialisation of a tensor, the
/// permutation of an epoch, the samples of a step) has a stream of its own that depends on nothing
/// but its name. A run therefore needs no generator state in its checkpoints.
std::uint64_t mix_seed(std::uint64_t seed, std::uint64_t stream);

/// Reproducible random numbers: std::mt19937_64, whose sequence the standard fixes, with
/// transformations of our own, because those of the standard library differ between vendors.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Uniform in {0, ..., n - 1}, without bias. Units: n >= 1.
  std::uint64_t below(std::uint64_t n);
  /// Standard normal (Box-Muller).
  double normal();

 private:
  std::mt19937_64 engine_;
  double spare_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace headloom
