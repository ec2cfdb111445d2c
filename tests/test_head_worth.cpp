// What heads are worth: gates and importance against the complex step, ablation against gates,
// pruning against gating, redundancy, circuits, labels, the live probe, the page.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/files.h"
#include "base/temporary.h"
#include "data/corpus_generator.h"
#include "heads/circuits.h"
#include "heads/live_probe.h"
#include "heads/names.h"
#include "heads/prune.h"
#include "heads/redundancy.h"
#include "heads/truth.h"
#include "report/report.h"
#include "report/token_text.h"
#include "selftest/tiny_models.h"

namespace headloom {
namespace {

using test::TestModel;

Sequences random_sequences(std::int64_t batch, std::int64_t seq, std::int64_t vocab) {
  return {batch, seq, test::Tokens(batch, seq, vocab).inputs, {}};
}

/// Gates of 1 for every head, with room for their gradients.
template <class T>
struct Gates {
  std::vector<T> gate, dgate;
  std::vector<HeadTap<T>> taps;

  Gates(const ModelConfig& config, std::int64_t batch) {
    const auto heads = static_cast<std::size_t>(config.first_head(config.n_layers));
    gate.assign(heads, T(1));
    dgate.resize(heads * static_cast<std::size_t>(batch));
    for (std::int64_t l = 0; l < config.n_layers; ++l) {
      const std::int64_t first = config.first_head(l);
      HeadTap<T> tap;
      tap.gate = gate.data() + first;
      tap.dgate = dgate.data() + first * batch;
      taps.push_back(std::move(tap));
    }
  }
};

class WholeModel : public testing::TestWithParam<ModelConfig> {};

TEST_P(WholeModel, GateGradientsAgreeWithTheComplexStepAndWithWo) {
  using C = std::complex<double>;
  const ModelConfig config = GetParam();
  const std::int64_t batch = 2;
  const test::Tokens tokens(batch, 6, config.vocab_size);
  TestModel<C> model(config, ref_ops<C>(), batch, 6);
  Gates<C> gates(config, batch);
  model.gpt.set_taps(gates.taps.data());
  model.run(tokens.view());
  const auto counted = static_cast<double>(tokens.view().counted());
  const ModelWeights<C> w = model.layout.views(model.parameters.data());
  const ModelWeights<C> dw = model.layout.views(model.gradients.data());
  for (const HeadId& head : all_heads(config)) {
    const auto at = static_cast<std::size_t>(config.first_head(head.layer) + head.head);
    C summed = 0, product = 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      summed += gates.dgate[static_cast<std::size_t>(config.first_head(head.layer) * batch +
                                                     b * config.heads_in(head.layer) + head.head)];
    }
    const std::int64_t width = config.head_layout(head.layer).head_dim;
    const auto& out = w.blocks[static_cast<std::size_t>(head.layer)].attention.out;
    const auto& dout = dw.blocks[static_cast<std::size_t>(head.layer)].attention.out;
    for (std::int64_t d = head.head * width; d < (head.head + 1) * width; ++d) {
      for (std::int64_t c = 0; c < config.d_model; ++c) product += out(d, c) * dout(d, c);
    }
    EXPECT_NEAR(summed.real(), product.real(), 1e-13) << head.name();
    gates.gate[at] += C(0, test::kComplexStep);
    const double slope = model.gpt.loss(tokens.view()).imag() / test::kComplexStep / counted;
    gates.gate[at] = 1;
    EXPECT_NEAR(slope, summed.real(), 1e-12) << head.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, WholeModel,
                         testing::Values(test::tiny_gpt2(), test::tiny_andrea(), test::tiny_odd(),
                                         test::tiny_llama()));

TEST(Importance, EqualsFiniteDifferencesOfEachSequence) {
  TestModel<float> model(test::tiny_andrea(), cpu_ops(), 3, 8);
  const Sequences s = random_sequences(3, 8, 13);
  const std::vector<HeadGradient> gradients =
      head_gradients(model.config, model.parameters.data(), s);
  Ablator ablator(model.config, model.parameters.data(), s);
  std::vector<float> gates(gradients.size(), 1.0F);
  constexpr float kStep = 1e-2F;
  for (std::size_t h = 0; h < gates.size(); ++h) {
    gates[h] = 1 + kStep;
    const std::vector<float> up = ablator.with_gates(gates).loss;
    gates[h] = 1 - kStep;
    const std::vector<float> down = ablator.with_gates(gates).loss;
    gates[h] = 1;
    double importance = 0;
    for (std::size_t b = 0; b < 3; ++b) {
      double slope = 0;
      for (std::size_t t = 0; t < 7; ++t) slope += double{up[b * 8 + t]} - down[b * 8 + t];
      importance += std::abs(slope / 7 / (2 * kStep)) / 3;
    }
    // Central differences in fp32: losses right to 1e-7 over a step of 2e-2, and its square.
    EXPECT_NEAR(gradients[h].importance, importance, 2e-4);
  }
}

TEST(Importance, SharedKeysCountInEqualParts) {
  const ModelConfig config = test::tiny_odd();
  const ParameterLayout layout(config);
  const ParameterArray<float> slices(layout);
  const HeadLayout heads = config.head_layout(0);
  ASSERT_GT(heads.heads, heads.kv_heads);
  const ModelWeights<float> w = layout.views(slices.data());
  w.blocks[0].attention.qkv(0, heads.key_column(0)) = 2;    // shared by the first group
  w.blocks[0].attention.qkv(0, heads.query_column(0)) = 1;  // the first head's own
  std::vector<double> norms;
  const float* base = slices.data();
  layer_shares(config, layout.views(base), &norms);
  const auto group = static_cast<double>(heads.heads / heads.kv_heads);
  EXPECT_NEAR(norms[0], std::sqrt(1 + 4 / group), 1e-6);
  EXPECT_NEAR(norms[1], std::sqrt(4 / group), 1e-6);
}

TEST(Importance, SharesOfALayerSumToOne) {
  for (const ModelConfig& config : {test::tiny_andrea(), test::tiny_odd()}) {
    TestModel<float> model(config, cpu_ops(), 2, 8);
    const std::vector<HeadGradient> gradients = head_gradients(
        model.config, model.parameters.data(), random_sequences(2, 8, config.vocab_size));
    std::vector<double> sum(static_cast<std::size_t>(config.n_layers));
    const std::vector<HeadId> heads = all_heads(config);
    for (std::size_t h = 0; h < heads.size(); ++h) {
      sum[static_cast<std::size_t>(heads[h].layer)] += gradients[h].share;
    }
    for (const double s : sum) EXPECT_NEAR(s, 1, 1e-12);
  }
}

TEST(Ablation, ZeroIsAGateOfZeroAndEveryKindChangesOnlyWhatItShould) {
  TestModel<float> model(test::tiny_odd(), cpu_ops(), 4, 8);
  const Sequences s = random_sequences(4, 8, model.config.vocab_size);
  Ablator ablator(model.config, model.parameters.data(), s);
  const std::vector<HeadId> heads = all_heads(model.config);
  for (std::size_t h = 0; h < heads.size(); ++h) {
    std::vector<float> gates(heads.size(), 1.0F);
    gates[h] = 0;
    EXPECT_EQ(ablator.without({&heads[h], 1}, Ablation::kZero).loss,
              ablator.with_gates(gates).loss);
    for (const Ablation kind : {Ablation::kMean, Ablation::kUniform, Ablation::kResample}) {
      EXPECT_NE(ablator.without({&heads[h], 1}, kind).loss, ablator.clean().loss)
          << heads[h].name() << " " << enum_name(kind);
    }
  }
  EXPECT_EQ(ablator.without({}, Ablation::kMean).loss, ablator.clean().loss);
  // The right token's logit goes down where its loss goes up, as far as the others stay put.
  std::vector<float> gates(heads.size(), 0.0F);
  const RowResults closed = ablator.with_gates(gates);
  std::vector<double> loss, logit;
  for (std::size_t r = 0; r < closed.loss.size(); ++r) {
    loss.push_back(closed.loss[r] - ablator.clean().loss[r]);
    logit.push_back(closed.logit[r] - ablator.clean().logit[r]);
  }
  EXPECT_LT(rank_correlation(loss, logit), -0.5);
}

TEST(Ablation, UniformAttentionAndEqualSequencesLoseNothing) {
  TestModel<float> model(test::tiny_andrea(), cpu_ops(), 2, 8);
  const ModelWeights<float> w = model.layout.views(model.parameters.data());
  const HeadLayout layout = model.config.head_layout(0);
  for (const BlockWeights<float>& block : w.blocks) {  // queries of zero: attention is uniform
    for (std::int64_t c = 0; c < model.config.d_model; ++c) {
      std::fill_n(block.attention.qkv.row(c), layout.query_width(), 0.0F);
    }
  }
  Sequences s = random_sequences(2, 8, 13);
  std::copy_n(s.ids.begin(), 8, s.ids.begin() + 8);
  Ablator ablator(model.config, model.parameters.data(), s);
  const HeadId head{1, 0};
  for (const Ablation kind : {Ablation::kUniform, Ablation::kResample}) {
    const std::vector<float> without = ablator.without({&head, 1}, kind).loss;
    EXPECT_EQ("", test::compare("loss", without, ablator.clean().loss, 1e-6));
  }
}

TEST(Prune, TheSmallerModelIsTheGatedOne) {
  for (const ModelConfig& config : {test::tiny_andrea(), test::tiny_gpt2()}) {
    TestModel<float> model(config, cpu_ops(), 2, 8);
    float* parameters = model.parameters.data();
    const Sequences s = random_sequences(2, 8, config.vocab_size);
    for (const PruneBy by :
         {PruneBy::kAblation, PruneBy::kImportance, PruneBy::kGradient, PruneBy::kRandom}) {
      const std::vector<HeadId> kept =
          heads_to_keep(config, head_worths(by, config, parameters, s, 3), 0.5);
      const ModelConfig small = pruned_config(config, kept);
      const ParameterLayout layout(small);
      const ParameterArray<float> pruned(layout);
      copy_kept(config, parameters, small, kept, pruned.data());
      EXPECT_LT(layout.count(), model.layout.count());
      Ablator whole(config, parameters, s), part(small, pruned.data(), s);
      EXPECT_EQ("", test::compare("loss", part.clean().loss,
                                  whole.with_gates(gates_of(config, kept)).loss, 2e-6));
    }
  }
}

TEST(Prune, KeepsOneHeadOfEveryLayerAndRefusesSharedKeys) {
  ModelConfig config = test::tiny_andrea();
  const std::vector<HeadId> heads = all_heads(config);
  std::vector<double> worths;
  for (const HeadId& head : heads) worths.push_back(head.layer == 0 ? 1 : 0);
  const std::vector<HeadId> kept = heads_to_keep(config, worths, 0.0);
  EXPECT_EQ(kept.size(), static_cast<std::size_t>(config.n_layers));
  for (std::int64_t l = 0; l < config.n_layers; ++l) {
    EXPECT_EQ(kept[static_cast<std::size_t>(l)].layer, l);
  }
  EXPECT_EQ(heads_to_keep(config, worths, 1.0), heads);
  EXPECT_THROW(pruned_config(test::tiny_odd(), all_heads(test::tiny_odd())), Error);
}

TEST(Redundancy, ACopyOfAHeadIsFoundAndOnlyThat) {
  TestModel<float> model(test::tiny_andrea(), cpu_ops(), 4, 8);
  const HeadLayout layout = model.config.head_layout(0);
  const Matrix<float> qkv = model.layout.views(model.parameters.data()).blocks[0].attention.qkv;
  for (std::int64_t c = 0; c < qkv.rows; ++c) {  // head 1 becomes head 0
    for (const std::int64_t column :
         {layout.query_column(0), layout.key_column(0), layout.value_column(0)}) {
      std::copy_n(qkv.row(c) + column, layout.head_dim, qkv.row(c) + column + layout.head_dim);
    }
  }
  const Sequences s = random_sequences(4, 8, 13);
  float* parameters = model.parameters.data();
  const HeadTable alike = output_similarity(model.config, parameters, s, true);
  const HeadTable apart = pattern_divergence(model.config, parameters, s);
  EXPECT_NEAR(alike.at(0, 1), 1, 1e-6);
  EXPECT_NEAR(apart.at(0, 1), 0, 1e-9);
  for (std::size_t a = 0; a < alike.heads; ++a) {
    EXPECT_NEAR(alike.at(a, a), 1, 1e-6);
    for (std::size_t b = 0; b < a; ++b) {
      if (a == 1) continue;
      EXPECT_LT(alike.at(a, b), 0.999);
      EXPECT_GT(apart.at(a, b), 0);
      EXPECT_LT(apart.at(a, b), std::log(2.0));
    }
  }
  const HeadTable within = output_similarity(model.config, parameters, s, false);
  EXPECT_EQ(within.at(0, 1), alike.at(0, 1));
  EXPECT_EQ(within.at(0, alike.heads - 1), 0);
  EXPECT_NEAR(redundancy(model.config, within)[0], 1, 1e-6);
}

TEST(Circuits, ACopyingHeadScoresOneAndItsOppositeMinusOne) {
  ModelConfig config = test::tiny_andrea();
  config.vocab_size = config.d_model = 16;
  config.n_layers = 1;
  config.n_heads = {2};
  config.validate();
  const ParameterLayout layout(config);
  const ParameterArray<float> parameters(layout);
  const ModelWeights<float> w = layout.views(parameters.data());
  for (std::int64_t c = 0; c < 16; ++c) {  // tokens are the axes; head 0 copies, head 1 forbids
    w.token_table(c, c) = w.head(c, c) = 1;
    const HeadLayout heads = config.head_layout(0);
    w.blocks[0].attention.qkv(c, heads.value_column(0) + c) = 1;
    w.blocks[0].attention.out(c, c) = c < 8 ? 1.0F : -1.0F;
  }
  const std::vector<double> scores = copying_scores(config, parameters.data());
  EXPECT_NEAR(scores[0], 1, 1e-9);
  EXPECT_NEAR(scores[1], -1, 1e-9);
}

TEST(Circuits, CompositionIsSeenWhereItIsPlanted) {
  ModelConfig config = test::tiny_andrea();
  config.validate();
  const ParameterLayout layout(config);
  const ParameterArray<float> fresh(layout), planted(layout);
  initialise(layout, config, 1, fresh.data());
  initialise(layout, config, 2, planted.data());
  const ModelWeights<float> w = layout.views(planted.data());
  const HeadLayout heads = config.head_layout(0);
  // The keys of layer 1's head 0 read exactly the directions that layer 0's head 1 writes.
  for (std::int64_t d = 0; d < heads.head_dim; ++d) {
    for (std::int64_t c = 0; c < config.d_model; ++c) {
      w.blocks[1].attention.qkv(c, heads.key_column(0) + d) =
          w.blocks[0].attention.out(heads.head_dim + d, c);
    }
  }
  const std::size_t n = all_heads(config).size();
  const std::size_t earlier = 1, later = static_cast<std::size_t>(config.first_head(1));
  const auto most = [&](Composition kind) {
    const std::vector<double> scores =
        composition_scores(kind, config, planted.data(), fresh.data());
    return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) -
                                    scores.begin());
  };
  EXPECT_EQ(most(Composition::kKey), earlier * n + later);
  EXPECT_NE(most(Composition::kQuery), earlier * n + later);
  // With rope the distance turns queries; values do not know it.
  config.positions = Positions::kRope;
  const ParameterLayout turned(config);
  const ParameterArray<float> weights(turned), again(turned);
  initialise(turned, config, 2, weights.data());
  initialise(turned, config, 1, again.data());
  const auto at = [&](Composition kind, std::int64_t distance) {
    return composition_scores(kind, config, weights.data(), again.data(), distance);
  };
  EXPECT_NE(at(Composition::kKey, 0), at(Composition::kKey, 3));
  EXPECT_EQ(at(Composition::kValue, 0), at(Composition::kValue, 3));
}

TEST(Statistics, KnownAnswers) {
  EXPECT_NEAR(
      rank_correlation(std::vector<double>{1, 2, 3, 4}, std::vector<double>{10, 20, 30, 99}), 1,
      1e-12);
  EXPECT_NEAR(rank_correlation(std::vector<double>{1, 2, 3}, std::vector<double>{3, 2, 1}), -1,
              1e-12);
  EXPECT_NEAR(rank_correlation(std::vector<double>{1, 1, 2, 2}, std::vector<double>{1, 2, 1, 2}), 0,
              1e-12);
  // The example of Benjamini & Hochberg 1995, section 3.2: four of fifteen at 0.05.
  const std::vector<double> p = {0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                                 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000};
  const std::vector<bool> rejected = reject_at(p, 0.05);
  EXPECT_EQ(std::count(rejected.begin(), rejected.end(), true), 4);
  EXPECT_TRUE(rejected[3]);
  EXPECT_FALSE(rejected[4]);
}

TEST(Statistics, IntervalsCoverTheTruthAboutNineteenTimesInTwenty) {
  Rng rng(3);
  int covered = 0, small = 0;
  constexpr int kTrials = 400;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<SequenceSum> sums(40);
    for (SequenceSum& s : sums) s = {10 * 0.5 * rng.normal(), 10};
    const Estimate e = estimate_mean(sums, static_cast<std::uint64_t>(trial));
    covered += e.low <= 0 && 0 <= e.high ? 1 : 0;
    small += e.p < 0.05 ? 1 : 0;
  }
  EXPECT_NEAR(covered, 0.94 * kTrials, 14);  // bootstrap of 40 is a little narrow
  EXPECT_NEAR(small, 0.05 * kTrials, 15);
}

TEST(Statistics, FewSequencesGiveCautiousChances) {
  // Student's t: 3.45 with 7 degrees of freedom has 0.0053 above it, where the normal has 0.00028;
  // the median and symmetry.
  EXPECT_NEAR(student_tail(3.45, 7), 0.0053, 0.0003);
  EXPECT_NEAR(student_tail(2.132, 4), 0.05, 0.002);
  EXPECT_NEAR(student_tail(1.645, 1e6), 0.05, 1e-4);
  EXPECT_NEAR(student_tail(-1.5, 9) + student_tail(1.5, 9), 1, 1e-12);
  const std::vector<SequenceSum> four(4, {5, 5}), five(5, {5, 5});
  EXPECT_EQ(estimate_mean(four, 1).p, 1);
  EXPECT_EQ(estimate_mean(five, 1).p, 0);
}

/// An untrained model of bytes and a text of brackets, names and repetitions.
LoadedModel fresh_model(std::uint64_t seed) {
  ModelConfig config = test::tiny_andrea();
  config.vocab_size = 257;
  config.context = 48;
  const ParameterLayout layout(config);
  LoadedModel model{config, Tokenizer::bytes(), layout, ParameterArray<float>(layout)};
  initialise(layout, config, seed, model.parameters.data());
  return model;
}

Question text_question(const Tokenizer& tokenizer, std::uint64_t seed) {
  std::string text;
  CorpusGenerator generator(seed);
  while (text.size() < 4000) text += generator.paragraph().text;
  std::vector<std::int32_t> ids;
  Encoder(tokenizer).encode(text, ids);
  Question q{cut_sequences(ids, 16, 48), {}};
  q.targets = plain_targets(q.sequences);
  for (Targets& t : bracket_targets(q.sequences, tokenizer)) q.targets.push_back(std::move(t));
  for (Targets& t : name_targets(q.sequences, find_names(q.sequences, tokenizer))) {
    q.targets.push_back(std::move(t));
  }
  return q;
}

TEST(Roles, NoUntrainedHeadHasOne) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const LoadedModel model = fresh_model(seed);
    for (const HeadFindings& head :
         examine(model, {text_question(model.tokenizer, seed)}, seed).heads) {
      // The false-discovery rate of a model in which nothing is true is the chance of any role at
      // all, 5%; the other conditions make it far smaller, so one in 20 models would be too many.
      EXPECT_EQ(head.role, "unclassified") << "seed " << seed << " " << head.id().name();
    }
  }
}

TEST(Roles, NeedLiftCostAndLogitToAgree) {
  const auto head_with = [](double lift, double cost, double elsewhere, double logit, double p) {
    HeadFindings head;
    head.scores.patterns.push_back({.pattern = "previous", .lift = lift, .low = lift - 0.01});
    PatternWorth worth{.cost = {.mean = cost},
                       .elsewhere = {.mean = elsewhere, .rows = 5},
                       .logit = {.mean = logit},
                       .p = p};
    head.worth.push_back(worth);
    return head;
  };
  std::vector<HeadFindings> heads = {
      head_with(0.5, 0.2, 0.1, 0.3, 1e-6), head_with(0.05, 0.2, 0.1, 0.3, 1e-6),
      head_with(0.5, 0.05, 0.1, 0.3, 1e-6), head_with(0.5, 0.2, 0.1, -0.3, 1e-6),
      head_with(0.5, 0.2, 0.1, 0.3, 0.5)};
  heads[1].scores.shape[static_cast<int>(HeadShape::kSink)] = 0.6;
  judge(heads);
  EXPECT_EQ(heads[0].role, "previous");
  EXPECT_EQ(heads[1].role, "sink");
  for (const int h : {2, 3, 4}) EXPECT_EQ(heads[static_cast<std::size_t>(h)].role, "unclassified");
  EXPECT_EQ(heads[0].role_score()->lift, 0.5);
  EXPECT_EQ(heads[2].role_worth(), nullptr);
}

TEST(HeadTargets, TruthAndTextAgreeAboutTheGeneratedCorpus) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "loom.txt";
  const auto truth = write_corpus(7, 6000, path);
  const Tokenizer tokenizer = Tokenizer::bytes();
  std::vector<std::int32_t> ids;
  const std::string text = read_file(path);
  Encoder(tokenizer).encode(text, ids);
  Sequences s{1, static_cast<std::int64_t>(ids.size()), ids, {0}};
  const Targets closer = bracket_targets(s, tokenizer)[0];
  const std::vector<Targets> known = truth_targets(s, tokenizer, truth);
  const auto key_at = [](const Targets& t, std::int64_t row) {
    return t.eligible(row)
               ? t.keys[static_cast<std::size_t>(t.begin[static_cast<std::size_t>(row)])]
               : -1;
  };
  std::size_t pairs = 0, verbs = 0, answers = 0;
  std::istringstream lines(read_file(truth));
  for (std::string line; std::getline(lines, line);) {
    const Json fact = Json::parse(line);
    if (fact["kind"] == "brackets") {
      for (const Json& pair : fact["pairs"]) {
        EXPECT_EQ(key_at(closer, pair[1]), pair[0].get<std::int32_t>());
        ++pairs;
      }
    } else if (fact["kind"] == "time") {
      for (const Json& verb : fact["verbs"]) {  // bytes: the key is the marker's first letter
        EXPECT_EQ(key_at(known[0], verb.get<std::int64_t>() - 1), fact["marker"]);
        ++verbs;
      }
    } else if (fact["kind"] == "story") {
      const std::int64_t answer = fact["answer"][0];
      EXPECT_EQ(key_at(known[1], answer - 1), fact["answer"][1]);
      ++answers;
    }
  }
  EXPECT_GT(pairs, 20U);
  EXPECT_GT(verbs, 5U);
  EXPECT_GT(answers, 5U);
}

TEST(HeadTargets, NamesAreCapitalWordsThatAreNeverSmall) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  const std::string text = "The cat saw Ána. Then the dog saw \xC3\x81na, then Bo";
  Sequences s{1, static_cast<std::int64_t>(text.size()), {}, {}};
  Encoder(tokenizer).encode(text, s.ids);
  const std::vector<Mention> names = find_names(s, tokenizer)[0];
  ASSERT_EQ(names.size(), 3U);
  EXPECT_EQ(names[0].name, "Ána");
  EXPECT_EQ(names[1].name, "Ána");
  EXPECT_EQ(names[2].name, "Bo");
  const std::vector<Targets> targets = name_targets(s, {names});
  EXPECT_TRUE(targets[1].eligible(names[1].first - 1));   // the second mention comes next
  EXPECT_FALSE(targets[1].eligible(names[2].first - 1));  // Bo is new
  EXPECT_TRUE(targets[0].judged[static_cast<std::size_t>(names[2].first - 1)]);
  EXPECT_FALSE(targets[0].eligible(names[0].last));
}

TEST(HeadTargets, TheRarestTokenSoFar) {
  const Sequences s{1, 6, {1, 2, 2, 1, 1, 3}, {}};
  const Targets rare = plain_targets(s)[3];
  ASSERT_EQ(rare.pattern, "rare");
  EXPECT_EQ(rare.keys, (std::vector<std::int32_t>{0, 1, 2, 2, 2, 5}));
}

/// The shares that the moments tell are those of what the step really moved.
void check_update_shares(const ModelConfig& config, const Trainer& trainer,
                         const std::vector<float>& before, const std::vector<LiveHead>& heads) {
  std::vector<float> moved(before);
  for (std::size_t i = 0; i < moved.size(); ++i)
    moved[i] = trainer.parameters().data()[i] - before[i];
  const float* base = moved.data();
  const std::vector<double> shares = layer_shares(config, trainer.layout().views(base));
  // A step moves a weight by 1e-3 of itself at most, so fp32 knows the difference to 1e-4.
  for (std::size_t h = 0; h < heads.size(); ++h) {
    EXPECT_NEAR(heads[h].update_share, shares[h], 2e-3) << heads[h].scores.id.name();
  }
}

/// Trains four steps on the little language; returns weights and moments.
std::vector<float> trained(bool watched, const TemporaryFolder& folder) {
  RunConfig config;
  config.model = test::tiny_andrea();
  config.model.vocab_size = 257;
  config.model.context = 16;
  config.train.batch = 4;
  const Tokenizer tokenizer = Tokenizer::bytes();
  const auto cache = folder.path() / "tokens";
  write_corpus(1, 20000, folder.path() / "text.txt");
  TokenCache::build(cache, {{folder.path() / "text.txt"}, ""}, tokenizer, 0);
  const TokenCache tokens(cache, 257);
  Trainer trainer(config, tokens, split_corpus(tokens.size(), 16, 0.1), cpu_ops());
  LiveProbe probe(trainer, live_question(trainer, tokens, tokenizer));
  for (int i = 0; i < 4; ++i) {
    if (watched) probe.attach();
    const std::vector<float> before(trainer.parameters().data(),
                                    trainer.parameters().data() + trainer.layout().stored());
    trainer.step();
    if (!watched) continue;
    const std::vector<LiveHead> heads = probe.look();
    EXPECT_EQ(heads.size(), all_heads(config.model).size());
    double gradient = 0, update = 0;
    for (const LiveHead& head : heads) {
      gradient += head.gradient_share;
      update += head.update_share;
      EXPECT_GT(head.importance, 0);
    }
    EXPECT_NEAR(gradient, static_cast<double>(config.model.n_layers), 1e-9);
    EXPECT_NEAR(update, static_cast<double>(config.model.n_layers), 1e-9);
    check_update_shares(config.model, trainer, before, heads);
    EXPECT_TRUE(live_json(i + 1, config.model, heads)["heads"][0]["lift"].contains("previous"));
  }
  std::vector<float> all;
  for (const float* x : {static_cast<const float*>(trainer.parameters().data()),
                         static_cast<const float*>(trainer.gradients().data()),
                         static_cast<const float*>(trainer.moment1().data()),
                         static_cast<const float*>(trainer.moment2().data())}) {
    all.insert(all.end(), x, x + trainer.layout().stored());
  }
  return all;
}

TEST(LiveProbe, TrainingIsBitwiseTheSameWithAndWithout) {
  const TemporaryFolder folder;
  const std::vector<float> with = trained(true, folder), without = trained(false, folder);
  ASSERT_EQ(with.size(), without.size());
  EXPECT_EQ(std::memcmp(with.data(), without.data(), with.size() * sizeof(float)), 0);
}

TEST(Report, TokensOfAnyBytesCanBeShown) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  const std::string text = std::string("a\xF0\x9F\x98\x80\xFF") + '\0';
  std::vector<std::int32_t> ids;
  Encoder(tokenizer).encode(text, ids);
  const std::vector<TokenText> texts =
      token_texts(ids.data(), static_cast<std::int64_t>(ids.size()), tokenizer);
  ASSERT_EQ(texts.size(), 7U);
  EXPECT_EQ(texts[0].text, "a");
  EXPECT_EQ(texts[1].text, "\\xF0");
  EXPECT_EQ(texts[4].text, "\\x80");
  EXPECT_EQ(texts[4].joined, "\xF0\x9F\x98\x80");
  EXPECT_EQ(texts[5].text, "\\xFF");
  EXPECT_EQ(texts[5].joined, "");
  EXPECT_EQ(texts[6].text, std::string(1, '\0'));
}

TEST(Report, NoTokenCanEndTheScript) {
  const Json data = {{"tokens", {"</script><script>alert(1)</script>", "<!--", "\"';\\", "\xC3"}}};
  const std::string page = report_page(data);
  EXPECT_EQ(page.find("alert(1)</script>"), page.npos);
  const std::size_t begin = page.find("id=\"data\">") + 10;
  const std::string json = page.substr(begin, page.find("</script>", begin) - begin);
  EXPECT_EQ(json.find('<'), json.npos);
  EXPECT_EQ(Json::parse(json)["tokens"][0], data["tokens"][0]);
  for (const char* foreign : {"http://", "https://", "src=", "@import", "url("}) {
    EXPECT_EQ(page.find(foreign), page.npos) << foreign;
  }
}

}  // namespace
}  // namespace headloom
