#include "heads/prune.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.h"
#include "base/files.h"
#include "base/rng.h"
#include "train/checkpoint.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

std::vector<double> ablation_costs(const ModelConfig& config, float* parameters,
                                   const Sequences& sequences) {
  Ablator ablator(config, parameters, sequences);
  const double clean = mean_loss(ablator.clean(), sequences);
  std::vector<double> costs;
  for (const HeadId& head : all_heads(config)) {
    costs.push_back(mean_loss(ablator.without({&head, 1}, Ablation::kZero), sequences) - clean);
  }
  return costs;
}

/// Copies columns [from, from + count) of `in` to columns from `to` on of `out`.
void copy_columns(const Matrix<const float>& in, std::int64_t from, const Matrix<float>& out,
                  std::int64_t to, std::int64_t count) {
  for (std::int64_t r = 0; r < in.rows; ++r) {
    std::copy_n(in.row(r) + from, count, out.row(r) + to);
  }
}

void copy_layer_heads(const AttentionWeights<const float>& in, const HeadLayout& from,
                      const AttentionWeights<float>& out, const HeadLayout& to,
                      const std::vector<std::int64_t>& kept) {
  const std::int64_t width = from.head_dim;
  for (std::size_t k = 0; k < kept.size(); ++k) {
    const auto h = static_cast<std::int64_t>(k);
    const std::pair<std::int64_t, std::int64_t> columns[] = {
        {from.query_column(kept[k]), to.query_column(h)},
        {from.key_column(kept[k]), to.key_column(h)},
        {from.value_column(kept[k]), to.value_column(h)}};
    for (const auto& [source, target] : columns) {
      copy_columns(in.qkv, source, out.qkv, target, width);
      if (in.qkv_bias != nullptr) std::copy_n(in.qkv_bias + source, width, out.qkv_bias + target);
    }
    for (std::int64_t d = 0; d < width; ++d) {
      std::copy_n(in.out.row(kept[k] * width + d), in.out.cols, out.out.row(h * width + d));
    }
  }
  if (in.out_bias != nullptr) std::copy_n(in.out_bias, in.out.cols, out.out_bias);
}

void require_own_keys(const ModelConfig& config) {
  if (config.n_kv_heads == 0) return;
  fail_usage(
      "heads that share {} key heads cannot be pruned one by one; models with a key head for each "
      "head (n_kv_heads 0) can",
      config.n_kv_heads);
}

bool is_attention(const ParameterInfo& info) {
  return info.group == ParameterGroup::kAttention;
}

}  // namespace

std::vector<double> head_worths(PruneBy by, const ModelConfig& config, float* parameters,
                                const Sequences& sequences, std::uint64_t seed) {
  if (by == PruneBy::kAblation) return ablation_costs(config, parameters, sequences);
  std::vector<double> worths;
  if (by == PruneBy::kRandom) {
    Rng rng(mix_seed(seed, 0x7072756E));
    for (std::size_t h = 0; h < all_heads(config).size(); ++h) {
      worths.push_back(static_cast<double>(rng.below(std::uint64_t{1} << 40)));
    }
    return worths;
  }
  for (const HeadGradient& head : head_gradients(config, parameters, sequences)) {
    worths.push_back(by == PruneBy::kImportance ? head.importance : head.share);
  }
  return worths;
}

std::vector<HeadId> heads_to_keep(const ModelConfig& config, const std::vector<double>& worths,
                                  double keep) {
  const std::vector<HeadId> heads = all_heads(config);
  std::vector<std::size_t> order(heads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return worths[a] > worths[b]; });
  // The best of every layer first: they stay in any case.
  std::vector<bool> has_one(static_cast<std::size_t>(config.n_layers));
  std::stable_partition(order.begin(), order.end(), [&](std::size_t h) {
    const auto layer = static_cast<std::size_t>(heads[h].layer);
    const bool first = !has_one[layer];
    has_one[layer] = true;
    return first;
  });
  const double wanted = keep * static_cast<double>(heads.size()) + 0.5;
  const auto count = std::max(static_cast<std::size_t>(config.n_layers),
                              std::min(heads.size(), static_cast<std::size_t>(wanted)));
  std::vector<HeadId> kept;
  for (std::size_t i = 0; i < count; ++i) kept.push_back(heads[order[i]]);
  std::sort(kept.begin(), kept.end());
  return kept;
}

std::vector<float> gates_of(const ModelConfig& config, const std::vector<HeadId>& kept) {
  std::vector<float> gates;
  for (const HeadId& head : all_heads(config)) {
    gates.push_back(std::binary_search(kept.begin(), kept.end(), head) ? 1.0F : 0.0F);
  }
  return gates;
}

ModelConfig pruned_config(const ModelConfig& config, const std::vector<HeadId>& kept) {
  require_own_keys(config);
  ModelConfig pruned = config;
  pruned.head_dim = config.head_layout(0).head_dim;
  pruned.d_mlp = config.mlp_width();
  pruned.n_heads.assign(static_cast<std::size_t>(config.n_layers), 0);
  for (const HeadId& head : kept) pruned.n_heads[static_cast<std::size_t>(head.layer)] += 1;
  pruned.validate();
  return pruned;
}

void copy_kept(const ModelConfig& config, const float* parameters, const ModelConfig& pruned,
               const std::vector<HeadId>& kept, float* out) {
  const ParameterLayout from(config), to(pruned);
  const auto& tensors = to.tensors();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const ParameterInfo& info = from.tensors()[t];
    if (is_attention(info)) continue;
    std::copy_n(parameters + info.offset, info.stored, out + tensors[t].offset);
  }
  const ModelWeights<const float> old_views = from.views(parameters);
  const ModelWeights<float> new_views = to.views(out);
  for (std::int64_t l = 0; l < config.n_layers; ++l) {
    std::vector<std::int64_t> of_layer;
    for (const HeadId& head : kept) {
      if (head.layer == l) of_layer.push_back(head.head);
    }
    const auto at = static_cast<std::size_t>(l);
    copy_layer_heads(old_views.blocks[at].attention, config.head_layout(l),
                     new_views.blocks[at].attention, pruned.head_layout(l), of_layer);
  }
}

double forward_speed(const ModelConfig& config, float* parameters, const Sequences& s) {
  constexpr int kRepeats = 5;
  constexpr std::int64_t kMostSequences = 16;
  const std::int64_t batch = std::min(kMostSequences, s.batch);
  Gpt<float> model(config, cpu_ops(), parameters, batch, s.seq, Use::kInference);
  const std::vector<std::int32_t> targets = next_tokens(s);
  std::vector<double> seconds;
  for (int i = 0; i <= kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    model.loss({s.ids.data(), targets.data(), batch, s.seq});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (i > 0) seconds.push_back(took.count());  // the first touches the memory
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRepeats / 2, seconds.end());
  return static_cast<double>(batch * s.seq) / seconds[kRepeats / 2];
}

void check_prunable(const fs::path& run, const fs::path& out, const ModelConfig& config) {
  require_own_keys(config);
  if (!fs::exists(run / "config.toml")) {
    fail_usage("{} is no run: pruning needs its corpus and schedule", run.string());
  }
  if (fs::exists(out / "config.toml")) {
    fail_usage("{} holds a run already; choose another folder with --out", out.string());
  }
}

void write_pruned_run(const fs::path& run, const fs::path& out, const ModelConfig& pruned,
                      const float* parameters, std::int64_t steps, const std::string& command) {
  check_prunable(run, out, pruned);
  RunConfig config = read_run_config(run / "config.toml");
  config.model = pruned;
  if (steps > 0) {
    config.train.steps = steps;
    config.train.warmup = std::min(config.train.warmup, steps);
    config.train.decay_steps = 0;
  }
  fs::create_directories(out);
  for (const char* file : {"tokenizer.json", "tokens.bin"}) {
    fs::copy_file(run / file, out / file, fs::copy_options::overwrite_existing);
  }
  const Tokenizer tokenizer = Tokenizer::load(out / "tokenizer.json");
  const TokenCache tokens(out / "tokens.bin", pruned.vocab_size);
  Trainer trainer(config, tokens,
                  split_corpus(tokens.size(), pruned.context, config.train.validation_fraction),
                  cpu_ops());
  trainer.parameters().write(
      [&](float* numbers) { std::copy_n(parameters, trainer.layout().stored(), numbers); });
  save_checkpoint(out, trainer, config.train.keep_checkpoints, tokenizer.end_of_text());
  // The config last: with it but without the checkpoint, training would begin from nothing.
  Json file = {{"command", command}};
  file.update(run_config_to_json(config));
  write_file_atomic(out / "config.toml", to_toml(file));
}

}  // namespace headloom
