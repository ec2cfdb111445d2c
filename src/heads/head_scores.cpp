#include "heads/head_scores.h"

#include <algorithm>

#include "attention/split.h"
#include "base/rng.h"
#include "heads/readable_model.h"

namespace headloom {
namespace {

/// Sequences that go through the model at a time.
constexpr std::int64_t kBatch = 4;

/// Sums of one pattern over one sequence: by head the mass and hits, and what all heads share.
struct SequenceSums {
  std::vector<double> mass, hits;  ///< [heads of all layers]
  double chance = 0;
  std::int64_t rows = 0;
};

/// The part of targets that belongs to sequences [first, first + count).
Targets slice_of(const Targets& all, std::int64_t seq, std::int64_t first, std::int64_t count) {
  Targets part{.pattern = all.pattern, .begin = {}, .keys = {}, .judged = {}};
  const auto from = static_cast<std::size_t>(first * seq);
  const auto rows = static_cast<std::size_t>(count * seq);
  const std::int32_t base = all.begin[from];
  for (std::size_t r = 0; r <= rows; ++r) part.begin.push_back(all.begin[from + r] - base);
  part.keys.assign(all.keys.begin() + base, all.keys.begin() + all.begin[from + rows]);
  return part;
}

/// Runs sequences through a model and probes every layer.
class Probing {
 public:
  Probing(const ModelConfig& config, float* parameters, const Sequences& sequences,
          const std::vector<Targets>& targets, const Ops<float>& ops)
      : config_(config),
        sequences_(sequences),
        targets_(targets),
        heads_(config.first_head(config.n_layers)),
        model_(config, ops, parameters, std::min(kBatch, sequences.batch), sequences.seq,
               Use::kTraining) {
    shapes_.resize(static_cast<std::size_t>(heads_ * kHeadShapes));
    sums_.resize(targets.size());
    for (std::int64_t b = 0; b < sequences.batch; b += kBatch) {
      pass(b, std::min(kBatch, sequences.batch - b));
    }
  }

  /// Scores of all heads without intervals.
  std::vector<HeadScores> scores() const;
  /// Sets interval and p of every score. The nulls in it must be known by then.
  void set_intervals(std::vector<HeadScores>& list, std::uint64_t seed) const;

 private:
  void pass(std::int64_t first, std::int64_t count);
  void probe_layer(std::int64_t layer, std::int64_t count, const std::vector<KeySet>& sets,
                   std::vector<std::vector<SequenceSums>>& sums);
  PatternScore score(std::size_t pattern, std::int64_t head) const;

  ModelConfig config_;
  const Sequences& sequences_;
  const std::vector<Targets>& targets_;
  std::int64_t heads_;
  ReadableModel model_;
  std::vector<double> shapes_;                   ///< [heads][kHeadShapes]
  std::vector<std::vector<SequenceSums>> sums_;  ///< [targets][sequences]
};

void Probing::pass(std::int64_t first, std::int64_t count) {
  const std::int64_t seq = sequences_.seq;
  std::vector<KvCache<float>> no_cache;
  model_.gpt().hidden_states(sequences_.ids.data() + first * seq, count, seq, 0, no_cache);
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

void Probing::probe_layer(std::int64_t layer, std::int64_t count, const std::vector<KeySet>& sets,
                          std::vector<std::vector<SequenceSums>>& sums) {
  const BlockActivations<float>& acts =
      model_.gpt().workspace().blocks[static_cast<std::size_t>(layer)];
  const HeadLayout layout = config_.head_layout(layer);
  const SplitHeads<float> s =
      split_heads(acts.qkv.row_range(0, count * sequences_.seq), count, layout);
  const std::size_t plane = static_cast<std::size_t>(count * layout.heads);
  std::vector<float> mass(sets.size() * plane), hits(mass.size()), shape(kHeadShapes * plane);
  model_.gpt().ops().attend_probe({.q = s.q,
                                   .k = s.k,
                                   .lse = acts.lse,
                                   .sets = sets.data(),
                                   .n_sets = static_cast<std::int64_t>(sets.size()),
                                   .mass = mass.data(),
                                   .hits = hits.data(),
                                   .shape = shape.data()});
  const auto first = static_cast<std::size_t>(config_.first_head(layer));
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

PatternScore Probing::score(std::size_t pattern, std::int64_t head) const {
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

void Probing::set_intervals(std::vector<HeadScores>& list, std::uint64_t seed) const {
  for (std::size_t h = 0; h < list.size(); ++h) {
    for (std::size_t p = 0; p < targets_.size(); ++p) {
      PatternScore& score = list[h].patterns[p];
      // lift = sum of (mass - chance) / sum of (rows - chance): a mean over "rows" of that size.
      const double null = std::max({score.null_lift, score.shuffled_lift, 0.0});
      std::vector<SequenceSum> lift, above_null;
      for (const SequenceSums& s : sums_[p]) {
        const double room = static_cast<double>(s.rows) - s.chance, gain = s.mass[h] - s.chance;
        lift.push_back({gain, room});
        above_null.push_back({gain - null * room, room});
      }
      const Estimate estimate = estimate_mean(lift, mix_seed(seed, p));
      score.low = estimate.low;
      score.high = estimate.high;
      score.p = mean_above_zero(above_null);
    }
  }
}

std::vector<HeadScores> Probing::scores() const {
  std::vector<HeadScores> list;
  const double rows = static_cast<double>(sequences_.batch * (sequences_.seq - 1));
  for (const HeadId& id : all_heads(config_)) {
    const std::int64_t head = config_.first_head(id.layer) + id.head;
    HeadScores scores{.id = id, .patterns = {}};
    for (std::size_t p = 0; p < targets_.size(); ++p) scores.patterns.push_back(score(p, head));
    for (std::int64_t k = 0; k < kHeadShapes; ++k) {
      scores.shape[k] = shapes_[static_cast<std::size_t>(head * kHeadShapes + k)] / rows;
    }
    list.push_back(std::move(scores));
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

/// Writes into each score the head's own lift on labels that belong elsewhere.
void set_shuffled(std::vector<HeadScores>& heads, const std::vector<HeadScores>& shuffled) {
  for (std::size_t h = 0; h < heads.size(); ++h) {
    for (std::size_t p = 0; p < heads[h].patterns.size(); ++p) {
      heads[h].patterns[p].shuffled_lift = shuffled[h].patterns[p].lift;
    }
  }
}

}  // namespace

const PatternScore& HeadScores::strongest() const {
  return *std::max_element(
      patterns.begin(), patterns.end(),
      [](const PatternScore& a, const PatternScore& b) { return a.lift < b.lift; });
}

std::vector<HeadScores> plain_scores(const ModelConfig& config, float* parameters,
                                     const Question& question, const Ops<float>& ops) {
  return Probing(config, parameters, question.sequences, question.targets, ops).scores();
}

std::vector<HeadScores> score_heads(const ModelConfig& config, float* parameters,
                                    const Question& question, float* untrained, std::uint64_t seed,
                                    const Ops<float>& ops) {
  const Sequences& sequences = question.sequences;
  const Probing probing(config, parameters, sequences, question.targets, ops);
  std::vector<HeadScores> heads = probing.scores();
  if (untrained != nullptr) {
    set_null(heads, plain_scores(config, untrained, question, ops));
    Question elsewhere{sequences, {}};
    for (const Targets& t : question.targets) {
      elsewhere.targets.push_back(shuffled_targets(t, sequences, seed));
    }
    set_shuffled(heads, plain_scores(config, parameters, elsewhere, ops));
  }
  probing.set_intervals(heads, seed);
  return heads;
}

}  // namespace headloom
