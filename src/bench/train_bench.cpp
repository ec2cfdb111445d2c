#include "bench/train_bench.h"

#include "bench/bench_run.h"
#include "bench/median.h"
#include "bench/peak.h"
#include "train/plan.h"

namespace headloom {
TrainBench bench_train(const ModelConfig& config, std::int64_t batch, std::int64_t steps) {
  BenchRun run(config, batch, profiled_ops());
  Trainer& trainer = run.trainer();
  for (int warm_up = 0; warm_up < 2; ++warm_up) trainer.step();
  reset_profile();

  TrainBench result;
  std::vector<double> seconds, peaks, shares;
  const double flops = model_flops(config, config.context).training();
  double before = measure_fma_peak();
  for (std::int64_t i = 0; i < steps; ++i) {
    const StepMetrics step = trainer.step();
    const double after = measure_fma_peak();
    seconds.push_back(step.seconds);
    peaks.push_back((before + after) / 2);
    shares.push_back(flops * static_cast<double>(step.tokens) / step.seconds / peaks.back());
    before = after;
  }
  result.steps = steps;
  result.seconds_per_step = median(seconds);
  result.tokens_per_second = static_cast<double>(batch * config.context) / result.seconds_per_step;
  result.peak = median(peaks);
  result.share = median(shares);
  result.ops = read_profile();
  return result;
}

}  // namespace headloom
