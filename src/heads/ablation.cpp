#include "heads/ablation.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/rng.h"
#include "heads/readable_model.h"

namespace headloom {
namespace {

/// Sequences that go through the model at a time.
constexpr std::int64_t kBatch = 16;

/// Numbers of sequences per pass, as even as can be: never one alone where there are two.
std::vector<std::int64_t> even_batches(std::int64_t sequences) {
  const std::int64_t passes = (sequences + kBatch - 1) / kBatch;
  std::vector<std::int64_t> sizes;
  for (std::int64_t p = 0; p < passes; ++p) {
    sizes.push_back((p + 1) * sequences / passes - p * sequences / passes);
  }
  return sizes;
}

/// Each row of `out` becomes the mean of the values up to it.
void put_uniform(const SplitHeads<const float>& in, const Heads<float>& out, std::int64_t head) {
  const std::int64_t kv = head / (in.q.heads / in.k.heads);
  std::vector<double> sum(static_cast<std::size_t>(out.head_dim));
  for (std::int64_t b = 0; b < out.batch; ++b) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (std::int64_t t = 0; t < out.seq; ++t) {
      for (std::int64_t d = 0; d < out.head_dim; ++d) {
        sum[static_cast<std::size_t>(d)] += in.v.at(b, t, kv)[d];
        out.at(b, t, head)[d] =
            static_cast<float>(sum[static_cast<std::size_t>(d)] / static_cast<double>(t + 1));
      }
    }
  }
}

/// Each sequence gets the output of the next, the last that of the first.
void put_resampled(const Heads<float>& out, std::int64_t head) {
  const auto copy_rows = [&](auto&& read, auto&& write) {
    for (std::int64_t t = 0; t < out.seq; ++t) {
      std::copy_n(read(t), out.head_dim, write(t));
    }
  };
  std::vector<float> first(static_cast<std::size_t>(out.seq * out.head_dim));
  const auto kept = [&](std::int64_t t) { return first.data() + t * out.head_dim; };
  copy_rows([&](std::int64_t t) { return out.at(0, t, head); }, kept);
  for (std::int64_t b = 0; b + 1 < out.batch; ++b) {
    copy_rows([&](std::int64_t t) { return out.at(b + 1, t, head); },
              [&](std::int64_t t) { return out.at(b, t, head); });
  }
  copy_rows(kept, [&](std::int64_t t) { return out.at(out.batch - 1, t, head); });
}

void put_constant(const Heads<float>& out, std::int64_t head, const double* value) {
  for (std::int64_t b = 0; b < out.batch; ++b) {
    for (std::int64_t t = 0; t < out.seq; ++t) {
      for (std::int64_t d = 0; d < out.head_dim; ++d) {
        out.at(b, t, head)[d] = static_cast<float>(value[d]);
      }
    }
  }
}

}  // namespace

std::string HeadId::name() const {
  return fmt::format("L{}H{}", layer, head);
}

std::vector<HeadId> all_heads(const ModelConfig& config) {
  std::vector<HeadId> heads;
  for (std::int64_t l = 0; l < config.n_layers; ++l) {
    for (std::int64_t h = 0; h < config.heads_in(l); ++h) heads.push_back({l, h});
  }
  return heads;
}

HeadId parse_head(const std::string& name, const ModelConfig& config) {
  for (const HeadId& head : all_heads(config)) {
    if (head.name() == name) return head;
  }
  fail_usage("there is no head {}; they are named like L0H0 to {}", name,
             all_heads(config).back().name());
}

struct Ablator::State {
  State(const ModelConfig& c, float* parameters, const Sequences& s, const Ops<float>& ops)
      : config(c),
        sequences(s),
        batches(even_batches(s.batch)),
        targets(next_tokens(s)),
        layout(c),
        weights(layout.views(parameters)),
        model(c, ops, parameters, *std::max_element(batches.begin(), batches.end()), s.seq,
              Use::kInference),
        zero(static_cast<std::size_t>(c.head_layout(0).head_dim)),
        means(static_cast<std::size_t>(c.first_head(c.n_layers) * c.head_layout(0).head_dim)) {
    mean_token.resize(static_cast<std::size_t>(c.d_model));
    for (std::int64_t v = 0; v < c.vocab_size; ++v) {
      for (std::size_t d = 0; d < mean_token.size(); ++d) {
        mean_token[d] += weights.head.row(v)[d] / static_cast<double>(c.vocab_size);
      }
    }
  }

  std::int64_t head_dim() const { return config.head_layout(0).head_dim; }
  double* mean_of(const HeadId& head) {
    return means.data() + (config.first_head(head.layer) + head.head) * head_dim();
  }

  RowResults run(const std::vector<HeadTap<float>>& taps) {
    RowResults results;
    model.gpt().set_taps(taps.data());
    std::int64_t first = 0;
    for (const std::int64_t count : batches) {
      const std::int64_t row = first * sequences.seq, rows = count * sequences.seq;
      model.gpt().loss({sequences.ids.data() + row, targets.data() + row, count, sequences.seq});
      const Workspace<float>& work = model.host().outside_blocks();
      const float* losses = work.losses;
      results.loss.insert(results.loss.end(), losses, losses + rows);
      for (std::int64_t r = 0; r < rows; ++r) {
        results.logit.push_back(right_logit(work.final_norm.row(r), row + r));
      }
      first += count;
    }
    model.gpt().set_taps(nullptr);
    return results;
  }

  /// Of row `row` of all, whose final norm is `hidden`.
  float right_logit(const float* hidden, std::int64_t row) const {
    const std::int32_t target = targets[static_cast<std::size_t>(row)];
    if (target == kIgnoredTarget) return 0;
    const float* token = weights.head.row(target);
    double sum = 0;
    for (std::size_t d = 0; d < mean_token.size(); ++d)
      sum += hidden[d] * (token[d] - mean_token[d]);
    return static_cast<float>(sum);
  }

  void measure_clean() {
    std::vector<HeadTap<float>> taps(static_cast<std::size_t>(config.n_layers));
    for (std::int64_t l = 0; l < config.n_layers; ++l) {
      taps[static_cast<std::size_t>(l)].edit = [this, l](const SplitHeads<const float>&,
                                                         const Heads<float>& out) {
        for (std::int64_t b = 0; b < out.batch; ++b) {
          for (std::int64_t t = 0; t < out.seq; ++t) {
            for (std::int64_t h = 0; h < out.heads; ++h) {
              double* mean = mean_of({l, h});
              for (std::int64_t d = 0; d < out.head_dim; ++d) mean[d] += out.at(b, t, h)[d];
            }
          }
        }
      };
    }
    clean = run(taps);
    for (double& m : means) m /= static_cast<double>(sequences.rows());
  }

  void put(Ablation kind, const HeadId& head, const SplitHeads<const float>& in,
           const Heads<float>& out) {
    switch (kind) {
      case Ablation::kZero:
        return put_constant(out, head.head, zero.data());
      case Ablation::kMean:
        return put_constant(out, head.head, mean_of(head));
      case Ablation::kUniform:
        return put_uniform(in, out, head.head);
      case Ablation::kResample:
        return put_resampled(out, head.head);
    }
  }

  ModelConfig config;
  const Sequences& sequences;
  std::vector<std::int64_t> batches;
  std::vector<std::int32_t> targets;
  ParameterLayout layout;
  ModelWeights<float> weights;
  ReadableModel model;
  std::vector<double> zero;        ///< [HS]
  std::vector<double> means;       ///< [all heads][HS]
  std::vector<double> mean_token;  ///< [C] of the output head's rows
  RowResults clean;
};

Ablator::Ablator(const ModelConfig& config, float* parameters, const Sequences& sequences,
                 const Ops<float>& ops) {
  if (sequences.batch < 2) fail("ablation needs at least 2 sequences, not {}", sequences.batch);
  state_ = std::make_unique<State>(config, parameters, sequences, ops);
  state_->measure_clean();
}

Ablator::~Ablator() = default;

const RowResults& Ablator::clean() const {
  return state_->clean;
}

RowResults Ablator::without(std::span<const HeadId> heads, Ablation kind) {
  std::vector<HeadTap<float>> taps(static_cast<std::size_t>(state_->config.n_layers));
  for (std::int64_t l = 0; l < state_->config.n_layers; ++l) {
    taps[static_cast<std::size_t>(l)].edit =
        [this, heads, kind, l](const SplitHeads<const float>& in, const Heads<float>& out) {
          for (const HeadId& head : heads) {
            if (head.layer == l) state_->put(kind, head, in, out);
          }
        };
  }
  return state_->run(taps);
}

RowResults Ablator::with_gates(std::span<const float> gates) {
  const ModelConfig& config = state_->config;
  if (static_cast<std::int64_t>(gates.size()) != config.first_head(config.n_layers)) {
    fail("{} gates do not fit a model of {} heads", gates.size(),
         config.first_head(config.n_layers));
  }
  std::vector<HeadTap<float>> taps(static_cast<std::size_t>(config.n_layers));
  for (std::int64_t l = 0; l < config.n_layers; ++l) {
    taps[static_cast<std::size_t>(l)].gate = gates.data() + config.first_head(l);
  }
  return state_->run(taps);
}

double mean_loss(const RowResults& results, const Sequences& s) {
  double sum = 0;
  for (const float loss : results.loss) sum += loss;  // 0 in last rows
  return sum / static_cast<double>(s.batch * (s.seq - 1));
}

ParameterArray<float> fresh_parameters(const ModelConfig& config, std::uint64_t seed) {
  const ParameterLayout layout(config);
  ParameterArray<float> fresh(layout);
  initialise(layout, config, mix_seed(seed, 0x6E756C6C), fresh.data());
  return fresh;
}

Estimate mean_change(std::span<const float> before, std::span<const float> after,
                     const Sequences& s, const Targets* pattern, Rows rows, std::uint64_t seed) {
  std::vector<SequenceSum> sums(static_cast<std::size_t>(s.batch));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    SequenceSum& sum = sums[static_cast<std::size_t>(b)];
    for (std::int64_t t = 0; t + 1 < s.seq; ++t) {
      const std::int64_t row = b * s.seq + t;
      if (rows != Rows::kAll && pattern->is_judged(row) != (rows == Rows::kJudged)) continue;
      const auto r = static_cast<std::size_t>(row);
      sum.sum += double{after[r]} - double{before[r]};
      sum.rows += 1;
    }
  }
  return estimate_mean(sums, seed);
}

}  // namespace headloom
