#include "heads/live_probe.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/progress.h"
#include "heads/examination.h"
#include "heads/redundancy.h"
#include "train/metrics.h"

namespace headloom {
namespace {

/// Sequences looked at, and tokens of each: enough to see a pattern, few beside a step's.
constexpr std::int64_t kSequences = 8;
constexpr std::int64_t kMostTokens = 256;

/// Says once of each head and pattern that the head has begun to follow it.
class Announcer {
 public:
  std::string news(const std::vector<LiveHead>& heads) {
    std::string line;
    for (const LiveHead& head : heads) {
      for (const PatternScore& p : head.scores.patterns) {
        if (p.lift < kLeastLift || p.lift < 2 * p.null_lift) continue;
        if (!known_.insert(head.scores.id.name() + p.pattern).second) continue;
        line += fmt::format("{}{} at {} ({:.2f})", line.empty() ? "" : ", ", head.scores.id.name(),
                            p.pattern, p.lift);
      }
    }
    return line;
  }

 private:
  std::set<std::string> known_;
};

}  // namespace

struct LiveProbe::State {
  State(Trainer& t, Question q) : trainer(t), question(std::move(q)), taps(t.config().model) {
    const ModelConfig& config = trainer.config().model;
    const ParameterArray<float> fresh =
        fresh_parameters(config, static_cast<std::uint64_t>(trainer.config().train.seed));
    null.resize(question.targets.size());
    for (const HeadScores& head : plain_scores(config, fresh.data(), question, trainer.ops())) {
      for (std::size_t p = 0; p < null.size(); ++p) {
        null[p] = std::max(null[p], head.patterns[p].lift);
      }
    }
  }

  Trainer& trainer;
  Question question;
  GradientTaps taps;
  std::vector<double> null;  ///< largest lift of any untrained head on each pattern
};

LiveProbe::LiveProbe(Trainer& trainer, Question question)
    : state_(std::make_unique<State>(trainer, std::move(question))) {}

LiveProbe::~LiveProbe() {
  state_->trainer.set_taps(nullptr);
}

void LiveProbe::attach() {
  state_->taps.clear();
  state_->trainer.set_taps(state_->taps.taps());
}

std::vector<LiveHead> LiveProbe::look() {
  Trainer& trainer = state_->trainer;
  trainer.set_taps(nullptr);
  const ModelConfig& config = trainer.config().model;
  // Experiments take weights that the host holds; what is read is not written.
  const HostNumbers<float> numbers = trainer.parameters().on_host();
  float* parameters = const_cast<float*>(numbers.data());
  std::vector<HeadScores> scores =
      plain_scores(config, parameters, state_->question, trainer.ops());
  const std::vector<double> gradient =
      layer_shares(config, trainer.layout().views(trainer.gradients().on_host().data()));
  const std::vector<double> update = update_shares(trainer);
  const std::vector<double> alike =
      redundancy(config, output_similarity(config, parameters, state_->question.sequences,
                                           /*across_layers=*/false, trainer.ops()));
  std::vector<LiveHead> heads;
  for (std::size_t h = 0; h < scores.size(); ++h) {
    for (std::size_t p = 0; p < state_->null.size(); ++p) {
      scores[h].patterns[p].null_lift = state_->null[p];
    }
    heads.push_back({.scores = std::move(scores[h]),
                     .gradient_share = gradient[h],
                     .update_share = update[h],
                     // The step's loss is a mean over its sequences, so this sum is a mean too.
                     .importance = state_->taps.absolute()[h],
                     .output_gradient_norm = std::sqrt(state_->taps.squares()[h]),
                     .redundancy = alike[h]});
  }
  return heads;
}

Question live_question(const Trainer& trainer, const TokenCache& tokens,
                       const Tokenizer& tokenizer) {
  const RunConfig& config = trainer.config();
  const std::int64_t context = config.model.context, seq = std::min(context, kMostTokens);
  const CorpusSplit split = split_corpus(tokens.size(), context, config.train.validation_fraction);
  std::vector<std::int64_t> starts = window_starts(split.validation, context, 0);
  if (starts.empty()) starts = window_starts(split.train, context, 0);
  Question question;
  Sequences& s = question.sequences;
  s.seq = seq;
  s.batch = std::min<std::int64_t>(kSequences, static_cast<std::int64_t>(starts.size()));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::size_t at = static_cast<std::size_t>(b) * starts.size();
    const std::int64_t begin = starts[at / static_cast<std::size_t>(s.batch)];
    for (std::int64_t t = 0; t < seq; ++t) s.ids.push_back(tokens[begin + t]);
  }
  question.targets = text_targets(s, tokenizer);
  return question;
}

Json live_json(std::int64_t step, const ModelConfig& config, const std::vector<LiveHead>& heads) {
  Json list = Json::array();
  std::vector<double> share, alike;
  for (const LiveHead& head : heads) {
    Json one = {{"head", head.scores.id.name()},
                {"gradient_share", head.gradient_share},
                {"update_share", head.update_share},
                {"importance", head.importance},
                {"output_gradient_norm", head.output_gradient_norm},
                {"redundancy", head.redundancy}};
    for (std::int64_t k = 0; k < kHeadShapes; ++k) {
      one[std::string(enum_name(static_cast<HeadShape>(k)))] = head.scores.shape[k];
    }
    for (const PatternScore& p : head.scores.patterns) one["lift"][p.pattern] = p.lift;
    share.push_back(head.gradient_share);
    alike.push_back(head.redundancy);
    list.push_back(std::move(one));
  }
  return {{"step", step},
          {"share_vs_redundancy", layer_correlation(config, share, alike)},
          {"heads", std::move(list)}};
}

Watcher watch_heads_for(const WatchedRun& run, const LiveListener& listener) {
  const std::int64_t every = run.trainer.config().train.probe_every;
  if (every == 0 || run.trainer.config().model.context < 2) return {};  // one token looks at itself
  struct Watch {
    LiveProbe probe;
    MetricsFile file;
    Announcer announcer;
  };
  Trainer& trainer = run.trainer;
  Progress& progress = run.progress;
  const std::shared_ptr<Watch> watch(
      new Watch{{trainer, live_question(trainer, run.tokens, run.tokenizer)},
                {run.run / "heads.jsonl", trainer.steps_done()},
                {}});
  const auto due = [&trainer, every](std::int64_t step) {
    return step % every == 0 || step == trainer.config().train.steps;
  };
  return {.before_step =
              [watch, due, &trainer] {
                if (due(trainer.steps_done() + 1)) watch->probe.attach();
              },
          .after_step =
              [watch, due, listener, &trainer, &progress] {
                if (!due(trainer.steps_done())) return;
                const std::vector<LiveHead> heads = watch->probe.look();
                watch->file.write(live_json(trainer.steps_done(), trainer.config().model, heads));
                if (listener) listener(trainer.steps_done(), heads);
                const std::string news = watch->announcer.news(heads);
                if (news.empty()) return;
                progress.note(
                    fmt::format("step {}: heads that now look: {}", trainer.steps_done(), news));
              }};
}

Watcher watch_heads(const WatchedRun& run) {
  return watch_heads_for(run, {});
}

}  // namespace headloom
