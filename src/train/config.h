#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/fields.h"
#include "model/config.h"

namespace headloom {

/// How a model is trained.
struct TrainConfig {
  std::int64_t steps = 1000;
  std::int64_t batch = 8;
  std::int64_t grad_accum = 1;
  double learning_rate = 1e-3;
  double min_lr_fraction = 0.1;
  std::int64_t warmup = 100;
  std::int64_t decay_steps = 0;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double adam_eps = 1e-8;
  double clip = 1.0;
  std::int64_t seed = 1;
  double validation_fraction = 0.05;
  std::int64_t eval_every = 200;
  std::int64_t eval_windows = 64;
  std::int64_t sample_every = 500;
  std::int64_t sample_tokens = 60;
  std::string sample_prompt;
  std::int64_t checkpoint_every = 500;
  std::int64_t keep_checkpoints = 3;
  std::int64_t probe_every = 50;

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& field) {
    field("steps", "optimizer steps", self.steps);
    field("batch", "sequences in a micro-batch", self.batch);
    field("grad_accum", "micro-batches in a step", self.grad_accum);
    field("learning_rate", "peak learning rate", self.learning_rate);
    field("min_lr_fraction", "part of the peak where the cosine ends", self.min_lr_fraction);
    field("warmup", "steps of linear warm-up", self.warmup);
    field("decay_steps", "step at which the cosine ends; 0: steps", self.decay_steps);
    field("weight_decay", "decay of matrices", self.weight_decay);
    field("beta1", "AdamW's decay of the mean", self.beta1);
    field("beta2", "AdamW's decay of the square", self.beta2);
    field("adam_eps", "AdamW's epsilon", self.adam_eps);
    field("clip", "largest gradient norm; 0: no clipping", self.clip);
    field("seed", "seed of weights, data order and samples", self.seed);
    field("validation_fraction", "part of the text held out", self.validation_fraction);
    field("eval_every", "steps between validations; 0: only at the end", self.eval_every);
    field("eval_windows", "held-out windows in a validation", self.eval_windows);
    field("sample_every", "steps between samples; 0: never", self.sample_every);
    field("sample_tokens", "tokens in a sample", self.sample_tokens);
    field("sample_prompt", "text that samples begin with", self.sample_prompt);
    field("checkpoint_every", "steps between checkpoints; 0: only at the end",
          self.checkpoint_every);
    field("keep_checkpoints", "newest checkpoints kept", self.keep_checkpoints);
    field("probe_every", "steps between looks at every head; 0: never", self.probe_every);
  }
};

/// Where the text comes from.
struct DataConfig {
  std::vector<std::string> corpus;
  std::string tokenizer = "bpe";
  std::string field = "text";

  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& field) {
    field("corpus", "files, folders and patterns", self.corpus);
    field("tokenizer", "bpe (trained on the corpus), bytes, or a path", self.tokenizer);
    field("field", "field of the objects in .jsonl files that holds the text", self.field);
  }
};

/// Everything that is needed to repeat a run.
struct RunConfig {
  ModelConfig model;
  TrainConfig train;
  DataConfig data;

  /// Errors: kUsage with every violation of every section at once.
  void validate() const;
};

/// Sections [model], [train] and [data].
Json run_config_to_json(const RunConfig& config);

/// Sets what the object names. Errors: kUsage for unknown sections and keys, with the nearest name.
void run_config_from_json(RunConfig& config, const Json& object);

/// Reads run/config.toml. Errors: names the file.
RunConfig read_run_config(const std::filesystem::path& file);

/// Chooses the model for a corpus of this size: what a user gets who says nothing. Small texts get
/// small models and short contexts.
void choose_model(RunConfig& config, std::int64_t corpus_bytes);

/// Chooses the schedule that goes with config.model: learning rate by width, batch by context,
/// cadences by the number of steps. Steps and batch that are set (not 0) stay; what is not set is
/// what model and corpus call for.
void choose_schedule(RunConfig& config, std::int64_t corpus_bytes);

/// Learning rate of a step: linear warm-up with (step + 1), then a cosine down to min_lr_fraction,
/// and from decay_steps on that floor. Units: step counts from 0. Source: Loshchilov & Hutter 2017.
double learning_rate_at(const TrainConfig& config, std::int64_t step);

}  // namespace headloom
