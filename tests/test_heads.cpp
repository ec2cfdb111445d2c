// The head microscope: the probe against its definition, heads whose pattern is planted, targets
// against what a reader would say, untrained models.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <stdexcept>

#include "heads/head_scores.h"
#include "selftest/tiny_models.h"

namespace headloom {
namespace {

using test::compare;
using test::random_numbers;

/// Attention over given q and k, with its log-sum-exp.
struct Attended {
  std::int64_t batch, seq, heads, kv_heads, dim;
  std::vector<float> q, k, v, out, lse;

  Attended(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t kv_heads,
           std::int64_t dim, double scale = 1)
      : batch(batch), seq(seq), heads(heads), kv_heads(kv_heads), dim(dim) {
    q = random_numbers<float>(batch * seq * heads * dim, 1, scale);
    k = random_numbers<float>(batch * seq * kv_heads * dim, 2, scale);
    attend();
  }
  void attend() {
    v.resize(k.size());
    out.resize(q.size());
    lse.resize(static_cast<std::size_t>(batch * heads * seq));
    cpu_ops().attend_forward(
        {view(q, heads), view(k, kv_heads), view(v, kv_heads), view(out, heads), lse.data()});
  }
  Heads<float> view(std::vector<float>& x, std::int64_t count) const {
    return {x.data(), batch, seq, count, dim, seq * count * dim, count * dim};
  }
  /// mass and hits of all sets, then the shapes.
  std::vector<float> probe(const Ops<float>& ops, const std::vector<Targets>& targets) {
    std::vector<KeySet> sets;
    for (const Targets& t : targets) sets.push_back(t.view());
    const auto plane = static_cast<std::size_t>(batch * heads);
    std::vector<float> all((2 * sets.size() + kHeadShapes) * plane);
    ops.attend_probe({.q = view(q, heads),
                      .k = view(k, kv_heads),
                      .lse = lse.data(),
                      .sets = sets.data(),
                      .n_sets = static_cast<std::int64_t>(sets.size()),
                      .mass = all.data(),
                      .hits = all.data() + sets.size() * plane,
                      .shape = all.data() + 2 * sets.size() * plane});
    return all;
  }
};

Sequences random_sequences(std::int64_t batch, std::int64_t seq, std::int64_t vocab) {
  return {batch, seq, test::Tokens(batch, seq, vocab).inputs, {}};
}

TEST(AttendProbe, CpuEqualsReferenceOverRaggedShapes) {
  for (const std::int64_t seq : {1, 2, 17, 70}) {
    for (const std::int64_t dim : {1, 8, 33}) {
      SCOPED_TRACE(fmt::format("T {} HS {}", seq, dim));
      Attended a(2, seq, 4, 2, dim);
      const std::vector<Targets> targets = plain_targets(random_sequences(2, seq, 5));
      // Sums of up to 70 rows of numbers below 70, each right to 1e-6.
      EXPECT_EQ("", compare("probe", a.probe(cpu_ops(), targets),
                            a.probe(ref_ops<float>(), targets), 3e-6));
    }
  }
}

TEST(AttendProbe, RowsSumToOneAndSetsAddUp) {
  Attended a(1, 40, 2, 2, 8, 2);
  const Sequences s = random_sequences(1, 40, 3);
  Targets everything{.pattern = "all", .begin = {0}, .keys = {}, .judged = {}};
  for (std::int32_t t = 0; t < 40; ++t) {
    for (std::int32_t j = 0; j <= t; ++j) everything.keys.push_back(j);
    everything.begin.push_back(static_cast<std::int32_t>(everything.keys.size()));
  }
  const std::vector<float> given = a.probe(cpu_ops(), {everything});
  for (int h = 0; h < 2; ++h) {
    EXPECT_NEAR(given[static_cast<std::size_t>(h)], 40, 1e-4);  // mass
    EXPECT_EQ(given[static_cast<std::size_t>(2 + h)], 40);      // hits
  }
}

TEST(AttendProbe, UniformAttentionHasEntropyOneAndLooksHalfWayBack) {
  Attended a(1, 33, 1, 1, 4, 0);  // all scores zero
  const std::vector<float> shape = a.probe(cpu_ops(), {});
  const auto mean = [&](HeadShape s) { return shape[static_cast<std::size_t>(s)] / 32; };
  EXPECT_NEAR(mean(HeadShape::kEntropy), 1, 1e-6);
  EXPECT_NEAR(mean(HeadShape::kDistance), 33.0 / 4, 1e-4);  // mean of i/2 over i = 1 ... 32
  double sink = 0;
  for (int i = 1; i < 33; ++i) sink += 1.0 / (i + 1);
  EXPECT_NEAR(mean(HeadShape::kSink), sink / 32, 1e-6);
  EXPECT_NEAR(mean(HeadShape::kConfidence), sink / 32, 1e-6);
  // Row 1 has one key beyond the sink: no entropy there.
  EXPECT_NEAR(mean(HeadShape::kEntropyBeyondSink), 31.0 / 32, 1e-6);
}

/// A hand-built model. Its stream holds, side by side, which token stands at a position, which
/// position it is, and which token stood before (written by the first block's head where there are
/// two). Both tables are one-hot, so the norms scale every row alike.
struct Planted {
  static constexpr std::int64_t kVocab = 13, kContext = 16;
  static constexpr std::int64_t kToken = 0, kPosition = kVocab, kBefore = kVocab + kContext;
  static constexpr std::int64_t kWidth = kBefore + kVocab + 2;  // a multiple of 4
  ModelConfig config;
  ParameterLayout layout;
  ParameterArray<float> parameters;
  ModelWeights<float> w;

  explicit Planted(std::int64_t layers)
      : config(shape(layers)),
        layout(config),
        parameters(layout),
        w(layout.views(parameters.data())) {
    for (std::int64_t v = 0; v < kVocab; ++v) w.token_table(v, kToken + v) = 1;
    for (std::int64_t t = 0; t < kContext; ++t) w.position_table(t, kPosition + t) = 1;
  }
  static ModelConfig shape(std::int64_t layers) {
    ModelConfig config = test::tiny_andrea();
    config.vocab_size = kVocab;
    config.context = kContext;
    config.d_model = kWidth;
    config.n_layers = layers;
    config.n_heads = {1};
    return config;
  }
  /// What feature `from` of the stream adds to dimension `to` of the block's queries, keys, values.
  void query(std::int64_t layer, std::int64_t from, std::int64_t to, float x) {
    block(layer).qkv(from, to) += x;
  }
  void key(std::int64_t layer, std::int64_t from, std::int64_t to, float x) {
    block(layer).qkv(from, kWidth + to) += x;
  }
  void value(std::int64_t layer, std::int64_t from, std::int64_t to, float x) {
    block(layer).qkv(from, 2 * kWidth + to) += x;
  }
  AttentionWeights<float>& block(std::int64_t layer) {
    return w.blocks[static_cast<std::size_t>(layer)].attention;
  }

  /// Position t looks at max(0, t - back).
  void look_back(std::int64_t layer, std::int64_t back) {
    for (std::int64_t t = 0; t < kContext; ++t) {
      query(layer, kPosition + t, std::max<std::int64_t>(0, t - back), 20);
      key(layer, kPosition + t, t, 20);
    }
  }
  /// Each token looks for itself in the features from `where` on, and never at its own position.
  void look_for_itself(std::int64_t layer, std::int64_t where) {
    for (std::int64_t v = 0; v < kVocab; ++v) {
      query(layer, kToken + v, v, 20);
      key(layer, where + v, v, 20);
    }
    for (std::int64_t t = 0; t < kContext; ++t) {
      query(layer, kPosition + t, kVocab + t, -30);
      key(layer, kPosition + t, kVocab + t, 30);
    }
  }
  std::vector<HeadScores> scores(const Question& q) {
    return score_heads(config, parameters.data(), q);
  }
};

/// Of a head's scores the one of this pattern.
const PatternScore& of(const HeadScores& head, const char* pattern) {
  for (const PatternScore& p : head.patterns) {
    if (p.pattern == pattern) return p;
  }
  throw std::logic_error(pattern);
}

TEST(HeadScores, PlantedPreviousAndCurrentHeads) {
  for (const std::int64_t back : {0, 1}) {
    Planted planted(1);
    planted.look_back(0, back);
    const Sequences s = random_sequences(6, 16, 13);
    const HeadScores head = planted.scores({s, plain_targets(s)})[0];
    EXPECT_EQ(head.strongest().pattern, back == 1 ? "previous" : "current");
    EXPECT_GT(head.strongest().lift, 0.99);
    EXPECT_GT(head.strongest().low, 0.99);
    EXPECT_EQ(head.strongest().hit_rate, 1.0);
    EXPECT_LT(of(head, back == 1 ? "current" : "previous").lift, 0.01);
    EXPECT_LT(of(head, "duplicate").lift, 0.25);  // only where a copy happens to stand there
  }
}

TEST(HeadScores, APlantedSinkLooksAtTheFirstToken) {
  Planted planted(1);
  planted.look_back(0, Planted::kContext);
  const Sequences s = random_sequences(6, 16, 13);
  const HeadScores head = planted.scores({s, plain_targets(s)})[0];
  EXPECT_GT(head.shape_of(HeadShape::kSink), 0.99);
  EXPECT_LT(head.shape_of(HeadShape::kEntropy), 0.01);
  EXPECT_LT(of(head, "current").lift, 0.01);
}

TEST(HeadScores, APlantedDuplicateHeadFindsEarlierCopies) {
  Planted planted(1);
  planted.look_for_itself(0, Planted::kToken);
  const Sequences s = random_sequences(6, 16, 5);
  const HeadScores head = planted.scores({s, plain_targets(s)})[0];
  EXPECT_EQ(head.strongest().pattern, "duplicate");
  EXPECT_GT(head.strongest().lift, 0.99);
  EXPECT_LT(of(head, "current").lift, 0.01);
}

TEST(HeadScores, APlantedInductionHeadNeedsTwoBlocks) {
  Planted planted(2);
  planted.look_back(0, 1);
  for (std::int64_t v = 0; v < Planted::kVocab; ++v) {  // the first block writes who stood before
    planted.value(0, Planted::kToken + v, v, 1);
    planted.block(0).out(v, Planted::kBefore + v) = 1;
  }
  planted.look_for_itself(1, Planted::kBefore);
  const Repeated repeated = repeated_random(8, 16, 13, 4);
  const Question q{repeated.sequences, {induction_targets(repeated)}};
  const std::vector<HeadScores> heads = planted.scores(q);
  // The first position has nobody before it and passes for its own predecessor.
  EXPECT_GT(of(heads[1], "induction").lift, 0.85);
  EXPECT_LT(of(heads[0], "induction").lift, 0.2);
  // Against both nulls: the shuffled one must not know the period.
  const ParameterArray<float> fresh = fresh_parameters(planted.config, 1);
  const HeadScores judged =
      score_heads(planted.config, planted.parameters.data(), q, fresh.data(), 1)[1];
  EXPECT_GT(of(judged, "induction").low, of(judged, "induction").shuffled_lift + 0.3);
  EXPECT_LT(of(judged, "induction").p, 1e-3);
}

TEST(HeadScores, APlantedBracketHeadFindsTheOpenBracket) {
  // Tokens 0 and 1 play ( and ). Depth 1: the open bracket is the latest one.
  Planted planted(1);
  for (std::int64_t t = 0; t < Planted::kContext; ++t) {
    planted.query(0, Planted::kPosition + t, 0, 20);
    planted.key(0, Planted::kPosition + t, 0, 2 * static_cast<float>(t));  // the later, the more
  }
  planted.key(0, Planted::kToken + 0, 0, 100);  // and brackets above all
  Sequences s{4, 16, {}, {}};
  Targets open{.pattern = "open bracket", .begin = {0}, .keys = {}, .judged = {}};
  Rng rng(5);
  for (int b = 0; b < 4; ++b) {
    std::int32_t at = -1;
    for (std::int32_t t = 0; t < 16; ++t) {
      const bool toggles = rng.below(3) == 0;
      s.ids.push_back(toggles ? (at < 0 ? 0 : 1) : 2 + static_cast<std::int32_t>(rng.below(11)));
      if (toggles) at = at < 0 ? t : -1;
      if (at >= 0) open.keys.push_back(at);
      open.begin.push_back(static_cast<std::int32_t>(open.keys.size()));
    }
  }
  const HeadScores head = planted.scores({s, {open}})[0];
  EXPECT_GT(head.strongest().lift, 0.95);
}

TEST(HeadScores, ABatchIsTheWeightedMeanOfItsSequencesInAnyOrder) {
  test::TestModel<float> model(test::tiny_odd(), cpu_ops(), 1, 8);
  const Sequences s = random_sequences(6, 8, 13);
  const auto scores = [&](const Sequences& some) {
    return score_heads(model.config, model.parameters.data(), {some, plain_targets(some)});
  };
  const std::vector<HeadScores> whole = scores(s);
  std::vector<double> mass(whole.size()), rows(whole.size());
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::vector<HeadScores> one =
        scores({1, 8, {s.ids.begin() + b * 8, s.ids.begin() + (b + 1) * 8}, {}});
    for (std::size_t h = 0; h < one.size(); ++h) {
      const PatternScore& p = one[h].patterns[2];
      mass[h] += p.score * static_cast<double>(p.rows);
      rows[h] += static_cast<double>(p.rows);
    }
  }
  Sequences reversed{s.batch, s.seq, {}, {}};
  for (std::int64_t b = s.batch - 1; b >= 0; --b) {
    reversed.ids.insert(reversed.ids.end(), s.ids.begin() + b * 8, s.ids.begin() + (b + 1) * 8);
  }
  const std::vector<HeadScores> other = scores(reversed);
  for (std::size_t h = 0; h < whole.size(); ++h) {
    EXPECT_NEAR(whole[h].patterns[2].score, mass[h] / rows[h], 1e-6);
    EXPECT_NEAR(whole[h].patterns[2].score, other[h].patterns[2].score, 1e-6);
  }
}

TEST(HeadScores, AnUntrainedModelLooksAtNothingInParticular) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    ModelConfig config = test::tiny_andrea();
    config.context = 64;
    const ParameterLayout layout(config);
    const ParameterArray<float> parameters(layout);
    initialise(layout, config, seed, parameters.data());
    const Sequences s = random_sequences(4, 64, 13);
    for (const HeadScores& head : score_heads(config, parameters.data(), {s, plain_targets(s)})) {
      EXPECT_LT(head.strongest().lift, 0.05) << "seed " << seed << " " << head.id.name();
    }
  }
}

std::vector<std::int32_t> keys_of(const Targets& t, std::int64_t row) {
  return {t.keys.begin() + t.begin[static_cast<std::size_t>(row)],
          t.keys.begin() + t.begin[static_cast<std::size_t>(row) + 1]};
}

TEST(HeadTargets, BracketsAndQuotesMeetTheirPartners) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  const std::string text = "a(b[c]\"d\")]e";
  Sequences s{1, static_cast<std::int64_t>(text.size()), {}, {}};
  Encoder(tokenizer).encode(text, s.ids);
  const std::vector<Targets> targets = bracket_targets(s, tokenizer);
  using Keys = std::vector<std::int32_t>;
  EXPECT_EQ(keys_of(targets[0], 5), Keys{3});  // ] of [
  EXPECT_EQ(keys_of(targets[0], 8), Keys{6});  // the second quote
  EXPECT_EQ(keys_of(targets[0], 9), Keys{1});  // ) of (
  EXPECT_EQ(keys_of(targets[0], 10), Keys{});  // a ] that nothing opened
  EXPECT_EQ(keys_of(targets[1], 0), Keys{});
  EXPECT_EQ(keys_of(targets[1], 4), Keys{3});
  EXPECT_EQ(keys_of(targets[1], 7), Keys{6});
  EXPECT_EQ(keys_of(targets[1], 11), Keys{});
}

TEST(HeadTargets, InductionPointsBehindEarlierCopies) {
  const Repeated repeated = repeated_random(6, 20, 50, 3);
  const Sequences& s = repeated.sequences;
  const Targets targets = induction_targets(repeated);
  std::set<std::int64_t> periods(repeated.period.begin(), repeated.period.end());
  EXPECT_GT(periods.size(), 1U);  // looking back by a fixed distance must not do
  for (std::int64_t b = 0; b < 6; ++b) {
    const std::int64_t period = repeated.period[static_cast<std::size_t>(b)];
    EXPECT_FALSE(targets.eligible(b * 20 + period - 1));
    for (std::int64_t t = period; t < 20; ++t) {
      ASSERT_EQ(s.at(b, t), s.at(b, t - period));
      const std::vector<std::int32_t> keys = keys_of(targets, b * 20 + t);
      EXPECT_NE(std::find(keys.begin(), keys.end(), t - period + 1), keys.end());
    }
  }
}

}  // namespace
}  // namespace headloom
