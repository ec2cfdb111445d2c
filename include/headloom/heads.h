#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "headloom/train.h"

namespace headloom {

/// What a program may want to know of one head. Names are like L1H3, layer and head from zero.
struct HeadSummary {
  std::string head;
  std::string role;  ///< a pattern's name, "sink" or "unclassified"; empty during training
  std::map<std::string, double> lift;  ///< by pattern: 0 is uniform attention, 1 nothing else
  double entropy = 0;                  ///< of its attention, over ln(i + 1)
  double sink = 0;                     ///< mean attention on the first token
  double cost = 0;            ///< nats a token that its mean ablation costs; 0 during training
  double importance = 0;      ///< mean over sequences of |dL/dxi|, xi a gate of 1 on the head
  double gradient_share = 0;  ///< of its layer's squared gradient
  double update_share = 0;    ///< of what AdamW moved in the step; 0 outside of training
};

/// What heads are examined on.
struct HeadOptions {
  std::string text;             ///< file or folder; empty: what the run holds out
  std::int64_t sequences = 64;  ///< at most
  std::int64_t context = 0;     ///< tokens in each; 0: the model's, at most 256
  std::int64_t step = -1;       ///< checkpoint; -1: the newest
  std::uint64_t seed = 1;
};

/// Examines every head of a trained model: patterns against both nulls, ablation, gradients, roles
/// (docs/heads.md). Errors: headloom::Error naming the file and what is wrong with it.
std::vector<HeadSummary> examine_heads(const std::string& run, const HeadOptions& options = {});

/// Mean loss, in nats a token, of a trained model whose heads' outputs are multiplied by gates.
/// Heads that are not named have a gate of 1. Errors: kUsage for a head that the model lacks.
double loss_with_gates(const std::string& run, const std::map<std::string, double>& gates,
                       const HeadOptions& options = {});

/// Called during training after every look at the heads (setting "probe_every").
using HeadProbe = std::function<void(std::int64_t step, const std::vector<HeadSummary>& heads)>;

/// As train, with a probe attached. The run is bitwise the one without. Errors: as train.
double train_with_probe(const TrainOptions& options, const HeadProbe& probe);

/// Writes everything about a run's heads into one page. Errors: as examine_heads.
void write_head_report(const std::string& run, const std::string& file,
                       const HeadOptions& options = {});

}  // namespace headloom
