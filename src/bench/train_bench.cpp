#include "bench/train_bench.h"

#include "bench/bench_run.h"
#include "bench/interleaved.h"
#include "bench/median.h"
#include "train/plan.h"

namespace headloom {
namespace {

/// Whole steps, the peak measured around each.
TrainBench time_steps(Trainer& trainer, const Meter& meter, std::int64_t steps) {
  for (int warm_up = 0; warm_up < 3; ++warm_up) trainer.step();
  reset_profile();
  TrainBench result;
  std::vector<double> seconds, peaks, shares;
  const ModelConfig& config = trainer.config().model;
  const double flops = model_flops(config, config.context).training();
  double before = meter.peak();
  for (std::int64_t i = 0; i < steps; ++i) {
    const StepMetrics step = trainer.step();
    const double after = meter.peak();
    seconds.push_back(step.seconds);
    peaks.push_back((before + after) / 2);
    shares.push_back(flops * static_cast<double>(step.tokens) / step.seconds / peaks.back());
    before = after;
  }
  result.steps = steps;
  result.seconds_per_step = median(seconds);
  result.tokens_per_second =
      static_cast<double>(trainer.config().train.batch * config.context) / result.seconds_per_step;
  result.peak = median(peaks);
  result.share = median(shares);
  return result;
}

}  // namespace

TrainBench bench_train(const ModelConfig& config, std::int64_t batch, std::int64_t steps,
                       const Ops<float>& ops) {
  const Meter meter = meter_of(ops);
  TrainBench whole;
  if (!ops.device->is_host) {
    // A card's steps are recorded and launched as a whole; op by op they are timed after that.
    BenchRun run(config, batch, ops);
    whole = time_steps(run.trainer(), meter, steps);
  }
  BenchRun run(config, batch, profiled_ops(ops));
  const TrainBench by_op = time_steps(run.trainer(), meter, steps);
  if (ops.device->is_host) whole = by_op;
  whole.ops = read_profile();
  return whole;
}

}  // namespace headloom
