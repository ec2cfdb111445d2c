#include "heads/head_scores.h"

#include <algorithm>

#include "attention/split.h"
#include "base/rng.h"

namespace headloom {
namespace {

/// Sequences that go through the model at a time.
constexpr std::int64_t kBatch = 4;
constexpr int kResamples = 1000;

/// Sums of one pattern over one sequence: by head the mass and hits, and what all heads share.
struct SequenceSums {
  std::vector<double> mass, hits;  ///< [heads of all layers]
  double chance = 0;
  std::int64_t rows = 0;
};

/// The part of targets that belongs to sequences [first, first + count).
Targets slice_of(const Targets& all, std::int64_t seq, std::int64_t first, std::int64_t count) {
  Targets part{.pattern = all.pattern, .begin = {}, .keys = {}};
  const auto from = static_cast<std::size_t>(first * seq);
  const auto rows = static_cast<std::size_t>(count * seq);
  const std::int32_t base = all.begin[from];
  for (std::size_t r = 0; r <= rows; ++r) part.begin.push_back(all.begin[from + r] - base);
  part.keys.assign(all.keys.begin() + base, all.keys.begin() + all.begin[from + rows]);
  return part;
}

/// Runs sequences through a model and probes every layer.
class Examination {
 public:
  Examination(const ModelConfig& config, float* parameters, const Sequences& sequences,
              const std::vector<Targets>& targets)
      : config_(config),
        sequences_(sequences),
        targets_(targets),
        model_(config, cpu_ops(), parameters, std::min(kBatch, sequences.batch), sequences.seq,
               Use::kTraining) {
    for (std::int64_t l = 0; l < config.n_layers; ++l) {
      first_head_.push_back(heads_);
      heads_ += config.heads_in(l);
    }
    shapes_.resize(static_cast<std::size_t>(heads_ * kHeadShapes));
    sums_.resize(targets.size());
    for (std::int64_t b = 0; b < sequences.batch; b += kBatch) {
      pass(b, std::min(kBatch, sequences.batch - b));
    }
  }

  /// Scores of all heads without intervals, which an untrained model does not need.
  std::vector<HeadScores> scores() const;
  void set_intervals(std::vector<HeadScores>& list, std::uint64_t seed) const;

 private:
  void pass(std::int64_t first, std::int64_t count);
  void probe_layer(std::int64_t layer, std::int64_t count, const std::vector<KeySet>& sets,
                   std::vector<std::vector<SequenceSums>>& sums);
  PatternScore score(std::size_t pattern, std::int64_t head) const;
  void set_interval(PatternScore& score, std::size_t pattern, std::size_t head,
                    std::uint64_t seed) const;

  ModelConfig config_;
  const Sequences& sequences_;
  const std::vector<Targets>& targets_;
  Gpt<float> model_;
  std::vector<std::int64_t> first_head_;
  std::int64_t heads_ = 0;
  std::vector<double> shapes_;                   ///< [heads][kHeadShapes]
  std::vector<std::vector<SequenceSums>> sums_;  ///< [targets][sequences]
};

void Examination::pass(std::int64_t first, std::int64_t count) {
  const std::int64_t seq = sequences_.seq;
  std::vector<KvCache<float>> no_cache;
  model_.hidden_states(sequences_.ids.data() + first * seq, count, seq, 0, no_cache);
  std::vector<Targets> parts;
  std::vector<KeySet> sets;
  std::vector<std::vector<SequenceSums>> sums;
  for (const Targets& all : targets_) parts.push_back(slice_of(all, seq, first, count));
  for (const Targets& part : parts) {
    sets.push_back(part.view());
    auto& of_part = sums.emplace_back(static_cast<std::size_t>(count));
    for (std::int64_t b = 0; b < count; ++b) {
      SequenceSums& s = of_part[static_cast<std::size_t>(b)];
      s.mass.resize(static_cast<std::size_t>(heads_));
      s.hits.resize(static_cast<std::size_t>(heads_));
      for (std::int64_t t = 0; t < seq; ++t) {
        if (!part.eligible(b * seq + t)) continue;
        s.rows += 1;
        s.chance += part.chance(b * seq + t, t);
      }
    }
  }
  for (std::int64_t l = 0; l < config_.n_layers; ++l) probe_layer(l, count, sets, sums);
  for (std::size_t p = 0; p < sums.size(); ++p) {
    sums_[p].insert(sums_[p].end(), sums[p].begin(), sums[p].end());
  }
}

void Examination::probe_layer(std::int64_t layer, std::int64_t count,
                              const std::vector<KeySet>& sets,
                              std::vector<std::vector<SequenceSums>>& sums) {
  const BlockActivations<float>& acts = model_.workspace().blocks[static_cast<std::size_t>(layer)];
  const HeadLayout layout = config_.head_layout(layer);
  const SplitHeads<float> s =
      split_heads(acts.qkv.row_range(0, count * sequences_.seq), count, layout);
  const std::size_t plane = static_cast<std::size_t>(count * layout.heads);
  std::vector<float> mass(sets.size() * plane), hits(mass.size()), shape(kHeadShapes * plane);
  cpu_ops().attend_probe({.q = s.q,
                          .k = s.k,
                          .lse = acts.lse,
                          .sets = sets.data(),
                          .n_sets = static_cast<std::int64_t>(sets.size()),
                          .mass = mass.data(),
                          .hits = hits.data(),
                          .shape = shape.data()});
  const auto first = static_cast<std::size_t>(first_head_[static_cast<std::size_t>(layer)]);
  const auto heads = static_cast<std::size_t>(layout.heads);
  for (std::size_t i = 0; i < plane; ++i) {
    const std::size_t b = i / heads, h = first + i % heads;
    for (std::size_t p = 0; p < sets.size(); ++p) {
      sums[p][b].mass[h] = mass[p * plane + i];
      sums[p][b].hits[h] = hits[p * plane + i];
    }
    for (std::size_t k = 0; k < kHeadShapes; ++k) {
      shapes_[h * kHeadShapes + k] += shape[k * plane + i];
    }
  }
}

double lift_of(double score, double chance) {
  return chance < 1 ? (score - chance) / (1 - chance) : 0.0;
}

PatternScore Examination::score(std::size_t pattern, std::int64_t head) const {
  const std::vector<SequenceSums>& all = sums_[pattern];
  const auto h = static_cast<std::size_t>(head);
  PatternScore result{.pattern = targets_[pattern].pattern};
  double mass = 0, hits = 0, chance = 0;
  for (const SequenceSums& s : all) {
    mass += s.mass[h];
    hits += s.hits[h];
    chance += s.chance;
    result.rows += s.rows;
  }
  if (result.rows == 0) return result;
  const auto rows = static_cast<double>(result.rows);
  result.score = mass / rows;
  result.hit_rate = hits / rows;
  result.chance = chance / rows;
  result.lift = lift_of(result.score, result.chance);
  return result;
}

void Examination::set_intervals(std::vector<HeadScores>& list, std::uint64_t seed) const {
  for (std::size_t h = 0; h < list.size(); ++h) {
    for (std::size_t p = 0; p < targets_.size(); ++p) {
      if (list[h].patterns[p].rows > 0) set_interval(list[h].patterns[p], p, h, seed);
    }
  }
}

void Examination::set_interval(PatternScore& score, std::size_t pattern, std::size_t head,
                               std::uint64_t seed) const {
  const std::vector<SequenceSums>& all = sums_[pattern];
  // The same resamples for every head: differences between heads then carry no noise of their own.
  Rng rng(mix_seed(seed, pattern));
  std::vector<double> lifts;
  for (int sample = 0; sample < kResamples; ++sample) {
    double mass = 0, chance = 0, rows = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const SequenceSums& s = all[rng.below(all.size())];
      mass += s.mass[head];
      chance += s.chance;
      rows += static_cast<double>(s.rows);
    }
    if (rows > 0) lifts.push_back(lift_of(mass / rows, chance / rows));
  }
  std::sort(lifts.begin(), lifts.end());
  score.low = lifts[lifts.size() / 40];
  score.high = lifts[lifts.size() - 1 - lifts.size() / 40];
}

std::vector<HeadScores> Examination::scores() const {
  std::vector<HeadScores> list;
  const double rows = static_cast<double>(sequences_.batch * (sequences_.seq - 1));
  for (std::int64_t l = 0; l < config_.n_layers; ++l) {
    for (std::int64_t h = 0; h < config_.heads_in(l); ++h) {
      const std::int64_t head = first_head_[static_cast<std::size_t>(l)] + h;
      HeadScores scores{.layer = l, .head = h, .patterns = {}};
      for (std::size_t p = 0; p < targets_.size(); ++p) {
        scores.patterns.push_back(score(p, head));
      }
      for (std::int64_t k = 0; k < kHeadShapes; ++k) {
        scores.shape[k] = shapes_[static_cast<std::size_t>(head * kHeadShapes + k)] / rows;
      }
      list.push_back(std::move(scores));
    }
  }
  return list;
}

/// Writes into each score the largest lift that any head of an untrained model has on its pattern.
void set_null(std::vector<HeadScores>& trained, const std::vector<HeadScores>& untrained) {
  for (HeadScores& head : trained) {
    for (std::size_t p = 0; p < head.patterns.size(); ++p) {
      double largest = 0;
      for (const HeadScores& other : untrained) {
        largest = std::max(largest, other.patterns[p].lift);
      }
      head.patterns[p].null_lift = largest;
    }
  }
}

std::vector<HeadScores> with_intervals(const Examination& examination, std::uint64_t seed) {
  std::vector<HeadScores> list = examination.scores();
  examination.set_intervals(list, seed);
  return list;
}

/// Scores of a model beside those of the same model with the weights `fresh`.
std::vector<HeadScores> score_against_null(const LoadedModel& model, float* fresh,
                                           const Sequences& sequences,
                                           const std::vector<Targets>& targets,
                                           std::uint64_t seed) {
  std::vector<HeadScores> trained =
      with_intervals(Examination(model.config, model.parameters.data(), sequences, targets), seed);
  set_null(trained, Examination(model.config, fresh, sequences, targets).scores());
  return trained;
}

}  // namespace

std::string HeadScores::name() const {
  return fmt::format("L{}H{}", layer, head);
}

const PatternScore& HeadScores::strongest() const {
  return *std::max_element(
      patterns.begin(), patterns.end(),
      [](const PatternScore& a, const PatternScore& b) { return a.lift < b.lift; });
}

std::vector<HeadScores> score_heads(const ModelConfig& config, float* parameters,
                                    const Sequences& sequences,
                                    const std::vector<Targets>& targets) {
  return with_intervals(Examination(config, parameters, sequences, targets), 1);
}

std::vector<HeadScores> examine_heads(const LoadedModel& model, std::span<const std::int32_t> text,
                                      std::int64_t sequences, std::int64_t seq,
                                      std::uint64_t seed) {
  const auto available = static_cast<std::int64_t>(text.size()) / seq;
  if (available < 2) {
    fail("{} tokens are too few to examine heads on: two sequences of {} are the least",
         text.size(), seq);
  }
  Sequences s{.batch = std::min(sequences, available), .seq = seq, .ids = {}};
  // Spread over the text, so that no part of it counts for all.
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const auto from = text.begin() + b * available / s.batch * seq;
    s.ids.insert(s.ids.end(), from, from + seq);
  }
  std::vector<Targets> targets = plain_targets(s);
  for (Targets& t : bracket_targets(s, model.tokenizer)) targets.push_back(std::move(t));
  const ParameterArray<float> fresh(model.layout);
  initialise(model.layout, model.config, mix_seed(seed, 0x6E756C6C), fresh.data());
  std::vector<HeadScores> heads = score_against_null(model, fresh.data(), s, targets, seed);
  const Sequences repeated = repeated_random(s.batch, seq, model.tokenizer.vocab_size(), seed);
  const std::vector<HeadScores> induction =
      score_against_null(model, fresh.data(), repeated, {induction_targets(repeated)}, seed);
  for (std::size_t h = 0; h < heads.size(); ++h) {
    heads[h].patterns.push_back(induction[h].patterns[0]);
  }
  return heads;
}

}  // namespace headloom
