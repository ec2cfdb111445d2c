#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/config.h"

namespace headloom {

double learning_rate_at(const TrainConfig& config, std::int64_t step) {
  if (step < config.warmup) {
    return config.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(config.warmup);
  }
  const std::int64_t end = config.decay_steps != 0 ? config.decay_steps : config.steps;
  const double span = static_cast<double>(std::max<std::int64_t>(1, end - config.warmup));
  const double progress = std::min(1.0, static_cast<double>(step - config.warmup) / span);
  const double floor = config.learning_rate * config.min_lr_fraction;
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return floor + (config.learning_rate - floor) * cosine;
}

}  // namespace headloom
