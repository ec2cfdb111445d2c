#include "model/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headloom {
namespace {

struct Candidate {
  std::int32_t id;
  double value;  ///< logit, later probability
};

std::vector<double> penalised(std::span<const float> logits, std::span<const std::int32_t> seen,
                              double penalty) {
  std::vector<double> values(logits.begin(), logits.end());
  if (penalty == 1.0) return values;
  std::vector<bool> done(values.size(), false);
  for (const std::int32_t id : seen) {
    const auto i = static_cast<std::size_t>(id);
    if (i >= values.size() || done[i]) continue;
    done[i] = true;
    values[i] = values[i] > 0 ? values[i] / penalty : values[i] * penalty;
  }
  return values;
}

}  // namespace

void SamplerConfig::validate() const {
  std::vector<std::string> found;
  const auto require = [&](bool good, const char* key, double value, const char* wanted) {
    if (!good) found.push_back(fmt::format("{} {} must be {}", key, value, wanted));
  };
  require(temperature >= 0 && std::isfinite(temperature), "temperature", temperature,
          "0 (greedy) or a positive number");
  require(top_k >= 0, "top_k", static_cast<double>(top_k), "0 (off) or a positive number");
  require(top_p > 0 && top_p <= 1, "top_p", top_p, "above 0 and at most 1 (off)");
  require(min_p >= 0 && min_p <= 1, "min_p", min_p, "between 0 (off) and 1");
  require(repetition_penalty >= 1 && std::isfinite(repetition_penalty), "repetition_penalty",
          repetition_penalty, "at least 1 (off)");
  if (!found.empty()) fail_usage("{}", fmt::join(found, "; "));
}

std::int32_t sample_token(std::span<const float> logits, std::span<const std::int32_t> seen,
                          const SamplerConfig& config, Rng& rng) {
  const std::vector<double> values = penalised(logits, seen, config.repetition_penalty);
  const auto best = std::max_element(values.begin(), values.end());
  const bool damaged =
      std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
  if (damaged || !std::isfinite(*best))
    fail("the model's logits are not finite; its weights may be damaged");
  if (config.temperature == 0) return static_cast<std::int32_t>(best - values.begin());

  std::vector<Candidate> candidates(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    candidates[i] = {static_cast<std::int32_t>(i),
                     std::exp((values[i] - *best) / config.temperature)};
  }
  // Ties go to the smaller id, so that the order, and with it the text, does not depend on the
  // sort.
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.value != b.value ? a.value > b.value : a.id < b.id;
  });
  if (config.top_k > 0 && config.top_k < static_cast<std::int64_t>(candidates.size())) {
    candidates.resize(static_cast<std::size_t>(config.top_k));
  }
  const auto total = [&] {
    return std::accumulate(candidates.begin(), candidates.end(), 0.0,
                           [](double sum, const Candidate& c) { return sum + c.value; });
  };
  const double wanted = config.top_p * total();
  double held = 0;
  std::size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || held < wanted)) {
    if (candidates[kept].value < config.min_p * candidates[0].value) break;
    held += candidates[kept++].value;
  }
  candidates.resize(kept);
  double point = rng.uniform() * total();
  for (const Candidate& candidate : candidates) {
    point -= candidate.value;
    if (point < 0) return candidate.id;
  }
  return candidates.back().id;
}

}  // namespace headloom
