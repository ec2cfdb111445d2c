#include "train/trainer.h"

#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "train/plan.h"

namespace headloom {
namespace {

/// Independent random streams of one seed.
enum Stream : std::uint64_t { kWeights = 1, kDataOrder = 2 };

/// `count` of the windows, evenly chosen.
std::vector<std::int64_t> thin_out(const std::vector<std::int64_t>& starts, std::int64_t count) {
  const auto all = static_cast<std::int64_t>(starts.size());
  if (all <= count) return starts;
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < count; ++i) {
    chosen.push_back(starts[static_cast<std::size_t>(i * all / count)]);
  }
  return chosen;
}

}  // namespace

Trainer::Trainer(const RunConfig& config, const TokenCache& tokens, const CorpusSplit& split,
                 const Ops<float>& ops)
    : config_(config),
      ops_(ops),
      parameter_layout_(config.model),
      parameters_(parameter_layout_, *ops.device),
      gradients_(parameter_layout_, *ops.device),
      moment1_(parameter_layout_, *ops.device),
      moment2_(parameter_layout_, *ops.device),
      model_(config.model, ops, parameters_.data(), config.train.batch, config.model.context,
             Use::kTraining),
      tokens_(tokens),
      batches_(tokens, split.train, config.model.context,
               mix_seed(static_cast<std::uint64_t>(config.train.seed), kDataOrder)),
      validation_(thin_out(window_starts(split.validation, config.model.context, 0),
                           config.train.eval_windows)),
      inputs_(static_cast<std::size_t>(config.train.batch * config.model.context)),
      targets_(inputs_.size()) {
  if (ops.reserve != nullptr) {
    ops.reserve(scratch_sizes(config.model, config.train.batch, config.model.context, *ops.device));
  }
  parameters_.write([&](float* numbers) {
    initialise(parameter_layout_, config.model,
               mix_seed(static_cast<std::uint64_t>(config.train.seed), kWeights), numbers);
  });
}

double Trainer::accumulate() {
  const std::int64_t batch = config_.train.batch, seq = config_.model.context;
  const double counted = static_cast<double>(config_.train.grad_accum * batch * seq);
  ops_.zero({gradients_.data(), parameter_layout_.stored()});
  double loss = 0;
  for (std::int64_t micro = 0; micro < config_.train.grad_accum; ++micro) {
    batches_.next(batch, inputs_.data(), targets_.data());
    // Every micro-batch is divided by the targets of the whole step, so that accumulating equals
    // one large batch.
    loss += model_.accumulate_gradients({inputs_.data(), targets_.data(), batch, seq}, 1 / counted,
                                        gradients_.data()) /
            counted;
    if (!std::isfinite(loss)) report_divergence("loss", loss);
  }
  return loss;
}

double Trainer::gradient_norm() const {
  double squares = 0;
  ops_.sum_squares({gradients_.data(), parameter_layout_.stored(), &squares});
  return std::sqrt(squares);
}

void Trainer::update(double learning_rate, double scale) {
  const std::vector<ParameterInfo>& tensors = parameter_layout_.tensors();
  // Neighbours that decay alike are updated as one, with the padding between them, which is zero
  // and stays it: a card then gets one launch where it would get a hundred.
  for (std::size_t i = 0, next = 0; i < tensors.size(); i = next) {
    while (next < tensors.size() && tensors[next].decays == tensors[i].decays) ++next;
    const ParameterInfo& info = tensors[i];
    const std::int64_t end = tensors[next - 1].offset + tensors[next - 1].stored;
    ops_.adamw({.parameter = parameters_.data() + info.offset,
                .gradient = gradients_.data() + info.offset,
                .m = moment1_.data() + info.offset,
                .v = moment2_.data() + info.offset,
                .count = end - info.offset,
                .learning_rate = learning_rate,
                .beta1 = config_.train.beta1,
                .beta2 = config_.train.beta2,
                .eps = config_.train.adam_eps,
                .weight_decay = info.decays ? config_.train.weight_decay : 0.0,
                .gradient_scale = scale,
                .step = steps_done_ + 1});
  }
}

void Trainer::report_divergence(const char* what, double value) const {
  const std::string found =
      find_nonfinite(model_, parameters_.on_host().data(), gradients_.on_host().data(),
                     config_.train.batch * config_.model.context);
  throw Error(ErrorKind::kDiverged,
              fmt::format("step {}: the {} is {}; first non-finite tensor: {}", steps_done_ + 1,
                          what, value, found.empty() ? "the logits" : found));
}

StepMetrics Trainer::step() {
  const auto start = std::chrono::steady_clock::now();
  StepMetrics metrics;
  metrics.loss = accumulate();
  metrics.gradient_norm = gradient_norm();
  if (!std::isfinite(metrics.gradient_norm)) {
    report_divergence("gradient norm", metrics.gradient_norm);
  }
  if (config_.train.clip > 0 && metrics.gradient_norm > config_.train.clip) {
    metrics.clip_factor = config_.train.clip / metrics.gradient_norm;
  }
  metrics.learning_rate = learning_rate_at(config_.train, steps_done_);
  update(metrics.learning_rate, metrics.clip_factor);
  metrics.step = ++steps_done_;
  metrics.tokens = config_.train.grad_accum * config_.train.batch * config_.model.context;
  metrics.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return metrics;
}

Evaluation Trainer::evaluate() {
  const std::int64_t seq = config_.model.context;
  const auto windows = static_cast<std::int64_t>(validation_.size());
  Evaluation result;
  for (std::int64_t begin = 0; begin < windows; begin += config_.train.batch) {
    const std::int64_t batch = std::min(config_.train.batch, windows - begin);
    for (std::int64_t b = 0; b < batch; ++b) {
      read_window(tokens_, validation_[static_cast<std::size_t>(begin + b)], seq,
                  inputs_.data() + b * seq, targets_.data() + b * seq);
    }
    result.loss += model_.loss({inputs_.data(), targets_.data(), batch, seq});
    result.targets += batch * seq;
  }
  if (result.targets > 0) result.loss /= static_cast<double>(result.targets);
  return result;
}

void Trainer::restore_position(std::int64_t steps_done, std::int64_t epoch, std::int64_t cursor) {
  steps_done_ = steps_done;
  batches_.seek(epoch, cursor);
}

}  // namespace headloom
