#include "bench/train_bench.h"

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/rng.h"
#include "base/temporary.h"
#include "bench/median.h"
#include "bench/peak.h"
#include "train/plan.h"
#include "train/trainer.h"

namespace headloom {
TrainBench bench_train(const ModelConfig& config, std::int64_t batch, std::int64_t steps) {
  const TemporaryFolder folder;
  std::string text(static_cast<std::size_t>(4 * batch * (config.context + 1)), '\0');
  Rng rng(1);
  for (char& c : text) c = static_cast<char>(rng.below(256));
  write_file_atomic(folder.path() / "text", text);
  const Tokenizer tokenizer = Tokenizer::bytes();
  TokenCache::build(folder.path() / "tokens", {{folder.path() / "text"}, ""}, tokenizer, 0);
  const TokenCache tokens(folder.path() / "tokens", tokenizer.vocab_size());

  RunConfig run;
  run.model = config;
  run.train.batch = batch;
  run.train.validation_fraction = 0;
  Trainer trainer(run, tokens, split_corpus(tokens.size(), config.context, 0), profiled_ops());
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
