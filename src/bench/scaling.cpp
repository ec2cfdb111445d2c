#include "bench/scaling.h"

#include <set>

#include "base/threads.h"
#include "bench/decode_bench.h"
#include "bench/train_bench.h"
#include "train/plan.h"

namespace headloom {
namespace {

ScalingRow measure(const char* sweep, ModelConfig config, std::int64_t batch, std::int64_t seq,
                   std::int64_t steps) {
  config.context = seq;
  const TrainBench bench = bench_train(config, batch, steps);
  ScalingRow row{.sweep = sweep,
                 .batch = batch,
                 .seq = seq,
                 .threads = thread_count(),
                 .seconds_per_step = bench.seconds_per_step,
                 .tokens_per_second = bench.tokens_per_second,
                 .share = bench.share};
  for (const OpProfile& op : bench.ops) {
    const double seconds = op.seconds / static_cast<double>(bench.steps);
    if (op.name.starts_with("gemm")) row.dense_seconds += seconds;
    if (op.name.starts_with("attend")) row.attention_seconds += seconds;
  }
  row.activation_bytes = static_cast<double>(plan_memory(config, batch, seq).activations);
  return row;
}

}  // namespace

std::vector<ScalingRow> bench_scaling(ModelConfig config, std::int64_t tokens, std::int64_t steps) {
  std::vector<ScalingRow> rows;
  const std::int64_t usual = config.context;
  for (std::int64_t seq = 256; seq <= 4096 && seq <= tokens; seq *= 2) {
    rows.push_back(measure("context", config, tokens / seq, seq, steps));
  }
  for (std::int64_t batch = 1; batch * usual <= tokens; batch *= 2) {
    rows.push_back(measure("batch", config, batch, usual, steps));
  }
  const int threads = thread_count();
  for (int round = 0; round < 3; ++round) {
    for (int count = 1; count <= threads;
         count = count < threads && 2 * count > threads ? threads : 2 * count) {
      set_thread_count(count);
      rows.push_back(
          measure("threads", config, std::max<std::int64_t>(1, tokens / usual / 2), usual, steps));
    }
  }
  set_thread_count(threads);
  return rows;
}

std::vector<KvHeadsRow> bench_kv_heads(ModelConfig config, std::int64_t prompt,
                                       std::int64_t tokens) {
  std::vector<KvHeadsRow> rows;
  const std::int64_t heads = config.heads_in(0);
  config.context = prompt + tokens;
  for (const std::int64_t divisor : std::set<std::int64_t>{1, 2, 4, heads}) {
    if (heads % divisor != 0) continue;
    config.n_kv_heads = heads / divisor;
    const DecodeBench bench = bench_decode(config, prompt, tokens);
    const HeadLayout layout = config.head_layout(0);
    rows.push_back(
        {config.n_kv_heads, prompt, bench.tokens_per_second,
         static_cast<double>(2 * config.n_layers * prompt * layout.kv_width()) * sizeof(float)});
  }
  return rows;
}

}  // namespace headloom
