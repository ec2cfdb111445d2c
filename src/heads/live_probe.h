#pragma once

#include <memory>
#include <string>

#include "heads/questions.h"
#include "train/request.h"
#include "train/trainer.h"

namespace headloom {

/// What one look at a head during training found.
struct LiveHead {
  HeadScores scores;
  double gradient_share = 0;  ///< of its layer, in the step just done
  double update_share = 0;    ///< of what AdamW moved in that step
  double importance = 0;      ///< mean over the step's sequences of |dL/dxi| (heads/importance.h)
  double output_gradient_norm = 0;
  double redundancy = 0;  ///< greatest output similarity to a head of its layer
};

/// Looks at every head of a model between two steps of its training, on the same few held-out
/// sequences every time. What it reads of the step itself (gradients, moments) the step leaves
/// behind anyway; the forward pass over the sequences has a workspace of its own. So training with
/// and without it is bitwise the same.
class LiveProbe {
 public:
  /// `question`: sequences and patterns to look for. The lifts of the same model untrained are
  /// measured at once.
  LiveProbe(Trainer& trainer, Question question);
  ~LiveProbe();
  LiveProbe(const LiveProbe&) = delete;
  LiveProbe& operator=(const LiveProbe&) = delete;

  /// Call before the step that `look` is about: gradients of the heads' outputs are gathered in it.
  void attach();
  /// Call after it. Lets go of the model.
  std::vector<LiveHead> look();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What is looked at during training: a few held-out windows of at most 256 tokens, of the training
/// text where nothing is held out, with every pattern that they hold.
Question live_question(const Trainer& trainer, const TokenCache& tokens,
                       const Tokenizer& tokenizer);

/// One line of heads.jsonl: {"step", "share_vs_redundancy", "heads": [{"head", "gradient_share",
/// ..., "lift": {pattern: lift}}]}. share_vs_redundancy is the mean over layers of the rank
/// correlation between gradient share and redundancy of a layer's heads, null where no layer has
/// three; the seed's claim says it is negative.
Json live_json(std::int64_t step, const ModelConfig& config, const std::vector<LiveHead>& heads);

using LiveListener = std::function<void(std::int64_t step, const std::vector<LiveHead>& heads)>;

/// The watcher that writes heads.jsonl every config.train.probe_every steps, says on the terminal
/// which heads have begun to follow a pattern, and tells `listener`, which may be empty.
Watcher watch_heads_for(const WatchedRun& run, const LiveListener& listener);

/// The same without a listener. For TrainRequest::watch.
Watcher watch_heads(const WatchedRun& run);

}  // namespace headloom
