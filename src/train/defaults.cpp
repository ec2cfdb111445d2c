#include <algorithm>

#include "model/parameters.h"
#include "train/config.h"

namespace headloom {
namespace {

constexpr std::int64_t kMegabyte = 1'000'000;
/// What a BPE token of ordinary text holds, for estimates before there is a tokenizer.
constexpr std::int64_t kBytesPerToken = 3;

std::int64_t round_to(std::int64_t value, std::int64_t unit) {
  return std::max(unit, (value + unit / 2) / unit * unit);
}

}  // namespace

void choose_model(RunConfig& config, std::int64_t corpus_bytes) {
  if (corpus_bytes < 20 * kMegabyte) {
    config.model = preset("andrea-nano");
    if (corpus_bytes < kMegabyte) config.model.vocab_size = 513;
  } else {
    config.model = preset("andrea-12m");
    if (corpus_bytes < 200 * kMegabyte) config.model.context = 512;
  }
  // A text of a few pages has no room for many long windows.
  const std::int64_t tokens = corpus_bytes / kBytesPerToken;
  while (config.model.context > 32 && tokens < 64 * config.model.context) config.model.context /= 2;
}

void choose_schedule(RunConfig& config, std::int64_t corpus_bytes) {
  TrainConfig& train = config.train;
  const ModelConfig& model = config.model;
  train.learning_rate = model.d_model <= 128 ? 3e-3 : model.d_model <= 384 ? 1e-3 : 6e-4;
  train.beta2 = model.d_model <= 128 ? 0.99 : 0.95;
  if (train.batch == 0) train.batch = std::clamp<std::int64_t>(4096 / model.context, 1, 64);
  // Some 10 tokens per parameter, as far as the text allows without being read 20 times.
  const std::int64_t tokens = std::max<std::int64_t>(1, corpus_bytes / kBytesPerToken);
  const std::int64_t wanted = std::min(10 * ParameterLayout(model).count(), 20 * tokens);
  const std::int64_t tokens_per_step = std::max<std::int64_t>(
      1, train.batch * std::max<std::int64_t>(1, train.grad_accum) * model.context);
  if (train.steps == 0) train.steps = round_to(wanted / tokens_per_step, 100);
  train.warmup = std::clamp<std::int64_t>(train.steps / 20, 10, 200);
  train.eval_every = round_to(train.steps / 10, 50);
  train.sample_every = round_to(train.steps / 4, 50);
  train.checkpoint_every = round_to(train.steps / 4, 50);
}

}  // namespace headloom
