#include "train/run.h"

#include <chrono>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/threads.h"
#include "data/corpus_reader.h"
#include "train/checkpoint.h"
#include "train/generate.h"
#include "train/metrics.h"
#include "train/plan.h"
#include "train/tensorboard.h"
#include "train/trainer.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

Tokenizer make_tokenizer(const RunConfig& config, const Corpus& corpus, Progress& progress) {
  if (config.data.tokenizer == "bytes") return Tokenizer::bytes();
  if (config.data.tokenizer != "bpe") return Tokenizer::load(config.data.tokenizer);
  progress.status(fmt::format("training a tokenizer of {} tokens", config.model.vocab_size));
  BpeTrainer trainer;
  for_each_part(corpus, [&](std::string_view part, bool) { trainer.add(part); });
  return trainer.train(static_cast<std::int32_t>(config.model.vocab_size));
}

/// Samples in which more than this share of four-token runs came before get a warning: a loop has
/// nearly 1, ordinary text of sixty tokens less than 0.1.
constexpr double kTooRepetitive = 0.5;

/// The run's folder with config, tokenizer and tokens in place.
struct PreparedRun {
  RunConfig config;
  Tokenizer tokenizer;
  fs::path cache;
};

PreparedRun prepare_new(const TrainRequest& request, Progress& progress) {
  RunConfig config = request.config;
  const Corpus corpus{corpus_files(config.data.corpus), config.data.field};
  Tokenizer tokenizer = make_tokenizer(config, corpus, progress);
  config.model.vocab_size = tokenizer.vocab_size();
  tokenizer.save(request.run / "tokenizer.json");
  const fs::path cache = request.run / "tokens.bin";
  progress.status("tokenizing");
  TokenCache::build(cache, corpus, tokenizer,
                    token_fingerprint(corpus_fingerprint(corpus), tokenizer));
  // Absolute paths: the run can then be resumed from anywhere.
  for (std::string& path : config.data.corpus) path = fs::absolute(path).string();
  return {config, std::move(tokenizer), cache};
}

PreparedRun prepare_resume(const TrainRequest& request) {
  const RunConfig& config = request.config;
  config.validate();
  const Corpus corpus{corpus_files(config.data.corpus), config.data.field};
  Tokenizer tokenizer = Tokenizer::load(request.run / "tokenizer.json");
  const fs::path cache = request.run / "tokens.bin";
  const std::uint64_t wanted = token_fingerprint(corpus_fingerprint(corpus), tokenizer);
  if (!TokenCache::is_current(cache, wanted)) {
    if (fs::exists(cache)) {
      fail(
          "{} was made from another corpus or tokenizer than {} holds now; resuming would not be "
          "the "
          "same run. Restore the corpus, or remove {} to go on with the changed one",
          cache.string(), fmt::join(config.data.corpus, " "), cache.string());
    }
    TokenCache::build(cache, corpus, tokenizer, wanted);
  }
  return {config, std::move(tokenizer), cache};
}

/// Keeps the config as the run now has it. Only a run that can go on gets this far.
void write_config(const TrainRequest& request, const RunConfig& config) {
  const fs::path path = request.run / "config.toml";
  Json file = {{"command", request.command}};
  if (request.resume) {  // the command that began the run stays
    file["command"] = parse_toml(read_file(path), path.string()).value("command", request.command);
  }
  file.update(run_config_to_json(config));
  write_file_atomic(path, to_toml(file));
}

/// A prompt for samples that fills the context would end the run at its first sample.
void check_sample_prompt(const PreparedRun& prepared) {
  std::vector<std::int32_t> ids;
  Encoder(prepared.tokenizer).encode(prepared.config.train.sample_prompt, ids);
  const std::int64_t context = prepared.config.model.context;
  if (static_cast<std::int64_t>(ids.size()) >= context) {
    fail_usage("sample_prompt has {} tokens; the context of {} has room for {}", ids.size(),
               context, context - 1);
  }
}

/// The loop around a Trainer: cadences, progress, signals.
class Session {
 public:
  Session(const TrainRequest& request, PreparedRun prepared, const Ops<float>& ops,
          Progress& progress)
      : run_(request.run),
        prepared_(std::move(prepared)),
        progress_(progress),
        tokens_(prepared_.cache, prepared_.config.model.vocab_size),
        trainer_(prepared_.config, tokens_,
                 split_corpus(tokens_.size(), prepared_.config.model.context,
                              prepared_.config.train.validation_fraction),
                 ops) {
    // A run that was stopped before its first checkpoint begins again: bitwise the same.
    if (request.resume && !list_checkpoints(run_).empty()) {
      load_checkpoint(find_checkpoint(run_), trainer_);
      progress_.note(fmt::format("resuming {} at step {}", run_.string(), trainer_.steps_done()));
    }
    metrics_.emplace(run_ / "metrics.jsonl", trainer_.steps_done(), request.json);
    events_.emplace(run_ / "events", trainer_.steps_done());
    if (request.watch) {
      watcher_ = request.watch({trainer_, tokens_, prepared_.tokenizer, progress_, run_});
    }
  }

  int loop();
  void print_summary() const;
  double validation_loss() const { return validation_loss_; }

 private:
  const TrainConfig& train() const { return prepared_.config.train; }
  bool due(std::int64_t every) const {
    return trainer_.steps_done() == train().steps ||
           (every > 0 && trainer_.steps_done() % every == 0);
  }
  StepMetrics step();
  void report(const StepMetrics& step);
  void validate();
  void sample();
  void save();

  fs::path run_;
  PreparedRun prepared_;
  Progress& progress_;
  TokenCache tokens_;
  Trainer trainer_;
  std::optional<MetricsFile> metrics_;
  std::optional<EventFile> events_;
  Watcher watcher_;
  std::unique_ptr<Decoder> decoder_;
  double validation_loss_ = NAN;
  double seconds_per_step_ = 0;  ///< smoothed
  std::int64_t steps_timed_ = 0;
};

std::string device_line(const Ops<float>& ops) {
  if (ops.device->is_host) {
    return fmt::format("threads {}, instruction set {}, device cpu", thread_count(), active_isa());
  }
  return fmt::format("device {}", ops.name);
}

void Session::print_summary() const {
  const ModelConfig& model = prepared_.config.model;
  const ParameterLayout& layout = trainer_.layout();
  const double bytes_per_token =
      static_cast<double>(tokens_.text_bytes()) / static_cast<double>(tokens_.size());
  progress_.note(device_line(trainer_.ops()));
  progress_.note(fmt::format("corpus   {} bytes, {} tokens of {:.2f} bytes, vocabulary {}",
                             format_count(tokens_.text_bytes()), format_count(tokens_.size()),
                             bytes_per_token, format_count(model.vocab_size)));
  progress_.note(
      fmt::format("         unigram entropy {:.3f} nats a token: what knowing only how "
                  "often each token comes would reach",
                  unigram_entropy(tokens_, model.vocab_size)));
  progress_.note(
      fmt::format("model    {} parameters: d_model {}, {} heads of {}, {} layers, context {}",
                  format_count(layout.count()), model.d_model, fmt::join(model.n_heads, ","),
                  model.head_layout(0).head_dim, model.n_layers, model.context));
  const std::string advice = trainer_.ops().head_dim_note != nullptr
                                 ? trainer_.ops().head_dim_note(model.head_layout(0).head_dim)
                                 : head_dim_advice(model);
  if (!advice.empty()) progress_.note("         " + advice);
  progress_.note(fmt::format(
      "training {} steps of {} tokens ({:.1f} epochs), learning rate {}",
      format_count(train().steps), format_count(train().batch * train().grad_accum * model.context),
      static_cast<double>(train().steps * train().batch * train().grad_accum) /
          static_cast<double>(trainer_.batches().windows()),
      train().learning_rate));
  const MemoryPlan plan = plan_memory(model, train().batch, model.context, trainer_.ops());
  progress_.note(fmt::format("memory   {:.0f} MB, {:.1f} MFLOP a token",
                             static_cast<double>(plan.total()) / 1e6,
                             model_flops(model, model.context).training() / 1e6));
  progress_.note(fmt::format("run      {}", run_.string()));
}

StepMetrics Session::step() {
  try {
    return trainer_.step();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kDiverged) throw;
    metrics_->write({{"step", trainer_.steps_done() + 1}, {"loss", NAN}, {"error", error.what()}});
    const std::vector<fs::path> saved = list_checkpoints(run_);
    throw Error(ErrorKind::kDiverged,
                fmt::format("{}; the last good checkpoint is {}", error.what(),
                            saved.empty() ? "none yet" : saved[0].string()));
  }
}

void Session::report(const StepMetrics& s) {
  metrics_->write({{"step", s.step},
                   {"loss", s.loss},
                   {"learning_rate", s.learning_rate},
                   {"gradient_norm", s.gradient_norm},
                   {"clip_factor", s.clip_factor},
                   {"tokens", s.tokens},
                   {"seconds", s.seconds}});
  events_->write(s.step, {{"loss/train", s.loss},
                          {"learning_rate", s.learning_rate},
                          {"gradient_norm", s.gradient_norm},
                          {"tokens_per_second", static_cast<double>(s.tokens) / s.seconds}});
  // A mean over all steps at first, over the last twenty or so later. The first step of all also
  // pays for touching the memory, so the second replaces it.
  const auto weight = 1.0 / static_cast<double>(std::clamp<std::int64_t>(steps_timed_++, 1, 20));
  seconds_per_step_ += weight * (s.seconds - seconds_per_step_);
  // Without a terminal every line stays, so there are fewer of them.
  const std::int64_t line_every =
      progress_.live() ? 1 : std::max<std::int64_t>(1, train().steps / 20);
  if (s.step % line_every != 0 && s.step != train().steps && s.step != 1) return;
  const double left = static_cast<double>(train().steps - s.step) * seconds_per_step_;
  const std::string bar =
      progress_.live()
          ? progress_bar(static_cast<double>(s.step) / static_cast<double>(train().steps), 20) + " "
          : "";
  const std::string validation =
      std::isnan(validation_loss_) ? "-" : fmt::format("{:.3f}", validation_loss_);
  progress_.status(fmt::format(
      "{}step {}/{}  loss {:.3f}  val {}  lr {:.2e}  norm {:.2f}  {} tok/s  ETA {}", bar, s.step,
      train().steps, s.loss, validation, s.learning_rate, s.gradient_norm,
      format_count(static_cast<long long>(static_cast<double>(s.tokens) / seconds_per_step_)),
      format_duration(left)));
}

void Session::validate() {
  const Evaluation result = trainer_.evaluate();
  if (result.targets == 0) return;
  validation_loss_ = result.loss;
  events_->write(trainer_.steps_done(), {{"loss/validation", result.loss}});
  metrics_->write({{"step", trainer_.steps_done()},
                   {"validation_loss", result.loss},
                   {"validation_targets", result.targets}});
  const double bytes_per_token =
      static_cast<double>(tokens_.text_bytes()) / static_cast<double>(tokens_.size());
  progress_.note(fmt::format("step {}: validation loss {:.4f} nats a token, {:.3f} bits a byte",
                             trainer_.steps_done(), result.loss,
                             result.loss / std::log(2.0) / bytes_per_token));
}

void Session::sample() {
  const RunConfig& config = prepared_.config;
  if (decoder_ == nullptr) {
    decoder_ =
        std::make_unique<Decoder>(config.model, trainer_.ops(), trainer_.parameters().data());
  }
  GenerateConfig request;
  request.prompt = train().sample_prompt;
  request.tokens = std::min(train().sample_tokens, config.model.context);
  request.seed = mix_seed(static_cast<std::uint64_t>(train().seed),
                          static_cast<std::uint64_t>(trainer_.steps_done()));
  std::string text = request.prompt;
  const std::vector<std::int32_t> ids =
      generate(*decoder_, prepared_.tokenizer, SamplerConfig(), request,
               [&](std::string_view part) { text += part; });
  progress_.note(fmt::format("step {}: a sample\n{}\n", trainer_.steps_done(), text));
  const double repeated = repeated_share(ids);
  metrics_->write(
      {{"step", trainer_.steps_done()}, {"sample", text}, {"repeated_share", repeated}});
  if (repeated > kTooRepetitive) {
    progress_.note(
        fmt::format("warning: step {}: the sample repeats itself ({:.0f}% of its runs of four "
                    "tokens came before); a low loss does not show that",
                    trainer_.steps_done(), 100 * repeated));
  }
}

void Session::save() {
  save_checkpoint(run_, trainer_, train().keep_checkpoints, prepared_.tokenizer.end_of_text());
}

int Session::loop() {
  if (trainer_.steps_done() >= train().steps) {
    progress_.note(fmt::format("nothing to do: {} steps are done already; --steps N goes on to N",
                               trainer_.steps_done()));
    validate();
    return 0;
  }
  const InterruptGuard guard;
  const auto start = std::chrono::steady_clock::now();
  while (trainer_.steps_done() < train().steps) {
    if (watcher_.before_step) watcher_.before_step();
    report(step());
    if (watcher_.after_step) watcher_.after_step();
    if (due(train().eval_every)) validate();
    if (due(train().checkpoint_every)) save();
    if (train().sample_every > 0 && due(train().sample_every)) sample();
    if (InterruptGuard::signal_number() != 0) {
      if (!due(train().checkpoint_every)) save();
      progress_.note(
          fmt::format("stopped at step {} and saved; go on with: headloom train --resume {}",
                      trainer_.steps_done(), run_.string()));
      return 128 + InterruptGuard::signal_number();
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  progress_.note(fmt::format("done in {}; try: headloom sample {}", format_duration(took.count()),
                             run_.string()));
  return 0;
}

}  // namespace

int train_run(const TrainRequest& request, double* validation_loss) {
  Progress progress(request.verbosity == Verbosity::kQuiet);
  if (!request.resume) request.config.validate();
  std::string note;
  const Ops<float>& ops = open_backend(request.backend, &note);
  if (!note.empty()) progress.note(note);
  fs::create_directories(request.run);
  const FileLock lock(request.run / kRunMarker, "another training is going on in this folder");
  PreparedRun prepared = request.resume ? prepare_resume(request) : prepare_new(request, progress);
  require_memory(prepared.config.model, prepared.config.train.batch,
                 ops.device->is_host
                     ? available_memory()
                     : ops.device->available() - memory_beside_training(prepared.config, ops),
                 ops);
  check_sample_prompt(prepared);
  const RunConfig config = prepared.config;
  Session session(request, std::move(prepared), ops, progress);
  write_config(request, config);
  session.print_summary();
  const int code = session.loop();
  if (validation_loss != nullptr) *validation_loss = session.validation_loss();
  return code;
}

}  // namespace headloom
