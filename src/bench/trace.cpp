#include "bench/trace.h"

#include "bench/profile.h"
#include "model/gpt.h"

namespace headloom {
namespace {

std::string dims(std::initializer_list<std::int64_t> list) {
  return fmt::format("[{}]", fmt::join(list, ","));
}

/// A step with the time and work that the profile has booked since the last reset.
TraceStep booked(const char* name) {
  TraceStep step{.name = name};
  for (const OpProfile& op : read_profile()) {
    step.seconds += op.seconds;
    step.flops += op.flops;
    step.bytes += op.bytes;
  }
  reset_profile();
  return step;
}

TraceStep multiplied(const char* name, std::int64_t rows, std::int64_t inner, std::int64_t cols) {
  TraceStep step = booked(name);
  step.shape =
      fmt::format("{} x {} = {}", dims({rows, inner}), dims({inner, cols}), dims({rows, cols}));
  step.strides = dims({cols, 1});
  step.bytes = 4.0 * static_cast<double>(rows * inner + inner * cols + rows * cols);
  return step;
}

/// One block, step by step, through the profiled table: the same calls as Gpt makes.
class Walker {
 public:
  Walker(const ModelConfig& config, float* parameters, std::int64_t seq)
      : config_(config),
        gpt_(config, profiled_ops(), parameters, 1, seq, Use::kInference),
        weights_(gpt_.layout().views(parameters)),
        seq_(seq) {}

  Gpt<float>& gpt() { return gpt_; }

  std::vector<TraceStep> layer(std::int64_t l) {
    const BlockActivations<float> acts = gpt_.workspace().blocks[static_cast<std::size_t>(l)];
    const BlockWeights<float>& weights = weights_.blocks[static_cast<std::size_t>(l)];
    const HeadLayout heads = config_.head_layout(l);
    const std::int64_t c = config_.d_model, fused = heads.fused_width(), q = heads.query_width();
    const Ops<float>& ops = profiled_ops();
    std::vector<TraceStep> steps;
    reset_profile();
    project_forward(ops, {acts.norm1, weights.attention.qkv, weights.attention.qkv_bias, acts.qkv});
    steps.push_back(multiplied("1 project", seq_, c, fused));
    const SplitHeads<float> s = split_heads(acts.qkv, 1, heads);
    steps.push_back({"2 split",
                     fmt::format("{} as q {} k, v {}", dims({seq_, fused}),
                                 dims({1, seq_, heads.heads, heads.head_dim}),
                                 dims({1, seq_, heads.kv_heads, heads.head_dim})),
                     dims({seq_ * fused, fused, heads.head_dim, 1})});
    if (config_.positions == Positions::kRope) {
      ops.rope({.x = queries_and_keys(s), .base = config_.rope_base});
      steps.push_back(booked("  rotate"));
      steps.back().shape =
          fmt::format("q and k {}", dims({1, seq_, heads.heads + heads.kv_heads, heads.head_dim}));
      steps.back().strides = dims({seq_ * fused, fused, heads.head_dim, 1});
      steps.back().bytes = 8.0 * static_cast<double>(seq_ * (q + heads.kv_width()));
    }
    ops.attend_forward(
        {s.q, s.k, s.v, concat_heads(acts.heads, 1, heads.heads, heads.head_dim), acts.lse});
    steps.push_back(booked("3 attend"));
    steps.back().shape = fmt::format("{} heads, causal {} x {}", heads.heads,
                                     dims({seq_, heads.head_dim}), dims({heads.head_dim, seq_}));
    steps.back().strides = dims({seq_ * q, q, heads.head_dim, 1});
    steps.back().bytes = 4.0 * static_cast<double>(seq_ * (fused + q));
    steps.push_back(
        {"4 concat",
         fmt::format("{} as {}", dims({1, seq_, heads.heads, heads.head_dim}), dims({seq_, q})),
         dims({q, 1})});
    mix_forward(ops, {acts.heads, weights.attention.out, weights.attention.out_bias,
                      gpt_.workspace().branch});
    steps.push_back(multiplied("5 mix", seq_, q, c));
    return steps;
  }

 private:
  ModelConfig config_;
  Gpt<float> gpt_;
  ModelWeights<float> weights_;
  std::int64_t seq_;
};

}  // namespace

Trace trace_forward(const ModelConfig& config, float* parameters,
                    std::span<const std::int32_t> ids) {
  const auto seq = static_cast<std::int64_t>(ids.size());
  Walker walker(config, parameters, seq);
  std::vector<KvCache<float>> no_cache;
  Trace trace;
  for (int pass = 0; pass < 2; ++pass) {
    trace = {};
    reset_profile();
    const Matrix<const float> hidden = walker.gpt().hidden_states(ids.data(), 1, seq, 0, no_cache);
    trace.around.push_back(booked("whole pass"));
    trace.around.back().shape = dims({seq, config.d_model});
    std::vector<float> logits(static_cast<std::size_t>(config.padded_vocab()));
    walker.gpt().logits(hidden.row_range(seq - 1, 1), {logits.data(), 1, config.padded_vocab()});
    trace.around.push_back(multiplied("logits", 1, config.d_model, config.vocab_size));
    for (std::int64_t l = 0; l < config.n_layers; ++l) trace.layers.push_back(walker.layer(l));
  }
  return trace;
}

}  // namespace headloom
