#include "bench/estimate.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "bench/median.h"
#include "bench/peak.h"
#include "model/gpt.h"
#include "train/plan.h"

namespace headloom {

SpeedEstimate estimate_speed(const ModelConfig& config, std::int64_t batch, double seconds) {
  ModelConfig layer = config;
  layer.n_layers = 1;
  layer.n_heads = {config.heads_in(0)};
  layer.head_dim = config.head_layout(0).head_dim;
  layer.vocab_size = std::min<std::int64_t>(config.vocab_size, 2048);
  const std::int64_t seq = config.context;
  // Enough rows for the multiplications to be what they will be, few enough to repeat.
  const std::int64_t sequences = std::clamp<std::int64_t>(2048 / seq, 1, batch);
  const ParameterLayout layout(layer);
  const ParameterArray<float> parameters(layout), gradients(layout);
  initialise(layout, layer, 1, parameters.data());
  Gpt<float> model(layer, cpu_ops(), parameters.data(), sequences, seq, Use::kTraining);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(sequences * seq));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(layer.vocab_size));
  }
  const TokenBatch tokens{ids.data(), ids.data(), sequences, seq};
  const auto pass = [&] {
    const auto start = std::chrono::steady_clock::now();
    model.accumulate_gradients(tokens, 1.0, gradients.data());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  pass();
  std::vector<double> times;
  double spent = 0;
  while (spent < seconds || times.empty()) {
    times.push_back(pass());
    spent += times.back();
  }
  const double work = model_flops(layer, seq).training() * static_cast<double>(tokens.rows());
  SpeedEstimate estimate;
  estimate.flops_per_second = work / median(times);
  const double rows = static_cast<double>(batch * seq);
  // AdamW reads four numbers a parameter and writes three; zeroing and the norm touch it twice
  // more.
  const double update = 9.0 * sizeof(float) *
                        static_cast<double>(ParameterLayout(config).stored()) /
                        measure_copy_bandwidth(0.05);
  estimate.seconds_per_step =
      model_flops(config, seq).training() * rows / estimate.flops_per_second + update;
  estimate.tokens_per_second = rows / estimate.seconds_per_step;
  return estimate;
}

}  // namespace headloom
