// The head microscope: the probe against its definition, heads whose pattern is planted, targets
// against what a reader would say, untrained models.
#include <gtest/gtest.h>

#include <cmath>

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

/// A model of one block whose only head looks where `aim` plants: queries and keys are read
/// straight from the position table, so that position i asks for position i - back.
struct Planted {
  ModelConfig config;
  ParameterLayout layout;
  ParameterArray<float> parameters;

  explicit Planted(std::int64_t back) : config(shape()), layout(config), parameters(layout) {
    const ModelWeights<float> w = layout.views(parameters.data());
    const std::int64_t c = config.d_model;
    for (std::int64_t t = 0; t < config.context; ++t) w.position_table(t, t) = 1;
    const BlockWeights<float>& block = w.blocks[0];
    for (std::int64_t t = 0; t < config.context; ++t) {
      const std::int64_t wanted = std::max<std::int64_t>(0, t - back);
      block.attention.qkv(t, wanted) = 20;  // the query of position t is the key of `wanted`
      block.attention.qkv(t, c + t) = 20;
    }
  }
  static ModelConfig shape() {
    ModelConfig config = test::tiny_andrea();
    config.context = 16;
    config.d_model = 16;
    config.n_layers = 1;
    config.n_heads = {1};
    return config;
  }
};

TEST(HeadScores, APlantedHeadScoresOneOnItsPatternAndChanceElsewhere) {
  for (const std::int64_t back : {0, 1}) {
    const Planted planted(back);
    const Sequences s = random_sequences(6, 16, 13);
    const std::vector<HeadScores> heads =
        score_heads(planted.config, planted.parameters.data(), {s, plain_targets(s)});
    ASSERT_EQ(heads.size(), 1U);
    const std::vector<PatternScore>& patterns = heads[0].patterns;
    ASSERT_EQ(patterns[0].pattern, "previous");
    ASSERT_EQ(patterns[1].pattern, "current");
    EXPECT_EQ(heads[0].strongest().pattern, back == 1 ? "previous" : "current");
    EXPECT_GT(heads[0].strongest().lift, 0.99);
    EXPECT_GT(heads[0].strongest().low, 0.99);
    EXPECT_EQ(heads[0].strongest().hit_rate, 1.0);
    EXPECT_LT(patterns[back == 1 ? 1 : 0].lift, 0.01);
    EXPECT_LT(patterns[2].lift, 0.25);  // duplicate: only where a copy happens to stand there
  }
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
  const Sequences s = repeated_random(2, 9, 50, 3);
  EXPECT_EQ(s.at(1, 5), s.at(1, 0));
  const Targets targets = induction_targets(s);
  EXPECT_FALSE(targets.eligible(4));
  // Position 6 repeats position 1, which was followed by position 2.
  const std::vector<std::int32_t> keys = keys_of(targets, 9 + 6);
  EXPECT_NE(std::find(keys.begin(), keys.end(), 2), keys.end());
}

}  // namespace
}  // namespace headloom
