// The whole model: gradients of every trainable number, the two views of attention, causality, and
// that a decoder with a cache says what the training forward says.
#include <gtest/gtest.h>

#include <cmath>

#include "attention/per_head.h"
#include "model/decode.h"
#include "selftest/tiny_models.h"

namespace headloom {
namespace {

using C = std::complex<double>;
using test::compare;
using test::random_numbers;
using test::TestModel;
using test::Tokens;

std::vector<std::pair<std::string, ModelConfig>> all_shapes() {
  return {{"gpt2", test::tiny_gpt2()},
          {"andrea", test::tiny_andrea()},
          {"odd", test::tiny_odd()},
          {"llama", test::tiny_llama()}};
}

TEST(ModelGradient, EveryParameterAgreesWithTheComplexStep) {
  for (const auto& [name, config] : all_shapes()) {
    SCOPED_TRACE(name);
    const Tokens tokens(2, 5, config.vocab_size);
    TestModel<C> model(config, ref_ops<C>(), 2, 5);
    model.run(tokens.view());
    const double counted = static_cast<double>(tokens.view().counted());
    for (const ParameterInfo& info : model.layout.tensors()) {
      double largest = 0;
      for (std::int64_t i = info.offset; i < info.offset + info.size(); ++i) {
        C& parameter = model.parameters.data()[i];
        const C kept = parameter;
        parameter += C(0, test::kComplexStep);
        const double slope = model.gpt.loss(tokens.view()).imag() / test::kComplexStep / counted;
        parameter = kept;
        ASSERT_NEAR(model.gradients.data()[i].real(), slope, 1e-11)
            << info.name << " at " << i - info.offset;
        largest = std::max(largest, std::abs(slope));
      }
      EXPECT_GT(largest, 1e-4) << info.name << " got no gradient";
    }
  }
}

TEST(ModelGradient, CpuAgreesWithTheReferenceInDoublePrecision) {
  for (const auto& [name, config] : all_shapes()) {
    SCOPED_TRACE(name);
    const Tokens tokens(3, 7, config.vocab_size);
    TestModel<float> fast(config, cpu_ops(), 3, 7);
    TestModel<double> exact(config, ref_ops<double>(), 3, 7);
    EXPECT_NEAR(fast.run(tokens.view()), exact.run(tokens.view()), 1e-5);
    for (const ParameterInfo& info : fast.layout.tensors()) {
      const float* given = fast.gradients.data() + info.offset;
      const double* wanted = exact.gradients.data() + info.offset;
      // Two layers of fp32 sums of a few dozen terms each: 1e-5 of a tensor's largest gradient.
      EXPECT_EQ("", compare(info.name.c_str(), {given, given + info.size()},
                            {wanted, wanted + info.size()}, 1e-5));
    }
  }
}

TEST(ModelGradient, PaddingRowsOfTheVocabularyStayZero) {
  const ModelConfig config = test::tiny_andrea();
  const Tokens tokens(2, 8, config.vocab_size);
  TestModel<float> model(config, cpu_ops(), 2, 8);
  model.run(tokens.view());
  for (const ParameterInfo& info : model.layout.tensors()) {
    for (std::int64_t i = info.size(); i < info.stored; ++i) {
      ASSERT_EQ(model.gradients.data()[info.offset + i], 0.0F) << info.name;
    }
  }
}

/// One attention layer with everything it reads and writes.
struct AttentionProblem {
  HeadLayout layout;
  std::int64_t batch, seq, width;
  std::vector<float> x, qkv_weight, qkv_bias, out_weight, out_bias, dy;
  std::vector<float> qkv, heads, lse, y, dheads, dqkv, dx, dqkv_weight, dqkv_bias, dout_weight,
      dout_bias;

  AttentionProblem(const HeadLayout& l, std::int64_t b, std::int64_t t, std::int64_t c)
      : layout(l), batch(b), seq(t), width(c) {
    const std::int64_t rows = b * t, fused = l.fused_width(), q = l.query_width();
    x = random_numbers<float>(rows * c, 1);
    qkv_weight = random_numbers<float>(c * fused, 2, 0.2);
    qkv_bias = random_numbers<float>(fused, 3);
    out_weight = random_numbers<float>(q * c, 4, 0.2);
    out_bias = random_numbers<float>(c, 5);
    dy = random_numbers<float>(rows * c, 6);
    qkv.resize(rows * fused), dqkv.resize(rows * fused);
    heads.resize(rows * q), dheads.resize(rows * q);
    lse.resize(rows * l.heads);
    y.resize(rows * c), dx.resize(rows * c);
    dqkv_weight.resize(c * fused), dqkv_bias.resize(fused);
    dout_weight.resize(q * c), dout_bias.resize(c);
  }
  Matrix<float> rows(std::vector<float>& v, std::int64_t cols) const {
    return {v.data(), batch * seq, cols};
  }
  /// Pairs of dimensions are turned where there are pairs.
  double rope_base() const { return layout.head_dim % 2 == 0 ? 10000.0 : 0.0; }
  AttentionForward<float> forward() {
    const std::int64_t fused = layout.fused_width(), q = layout.query_width();
    return {.layout = layout,
            .rope_base = rope_base(),
            .batch = batch,
            .x = rows(x, width),
            .weights = {Matrix<float>(qkv_weight.data(), width, fused), qkv_bias.data(),
                        Matrix<float>(out_weight.data(), q, width), out_bias.data()},
            .qkv = rows(qkv, fused),
            .heads = rows(heads, q),
            .lse = lse.data(),
            .y = rows(y, width),
            .cache = {}};
  }
  AttentionBackward<float> backward() {
    const std::int64_t fused = layout.fused_width(), q = layout.query_width();
    return {.layout = layout,
            .rope_base = rope_base(),
            .batch = batch,
            .x = rows(x, width),
            .weights = forward().weights,
            .qkv = rows(qkv, fused),
            .heads = rows(heads, q),
            .lse = lse.data(),
            .dy = rows(dy, width),
            .dheads = rows(dheads, q),
            .dqkv = rows(dqkv, fused),
            .dx = rows(dx, width),
            .dweights = {Matrix<float>(dqkv_weight.data(), width, fused), dqkv_bias.data(),
                         Matrix<float>(dout_weight.data(), q, width), dout_bias.data()}};
  }
};

TEST(Attention, PerHeadViewEqualsFusedView) {
  for (const HeadLayout& layout : {HeadLayout{1, 1, 1}, HeadLayout{2, 2, 8}, HeadLayout{3, 3, 24},
                                   HeadLayout{4, 2, 9}, HeadLayout{4, 2, 6}}) {
    for (const std::int64_t seq : {1, 7, 65}) {
      SCOPED_TRACE(fmt::format("{} heads of {}, T {}", layout.heads, layout.head_dim, seq));
      AttentionProblem fused(layout, 2, seq, 24), per_head(layout, 2, seq, 24);
      attention_forward(cpu_ops(), fused.forward());
      attention_backward(cpu_ops(), fused.backward());
      per_head_forward(cpu_ops(), per_head.forward());
      per_head_backward(cpu_ops(), per_head.backward());
      // The same products, summed in another order.
      constexpr double kTolerance = 5e-6;
      EXPECT_EQ("", compare("qkv", per_head.qkv, fused.qkv, kTolerance));
      EXPECT_EQ("", compare("heads", per_head.heads, fused.heads, kTolerance));
      EXPECT_EQ("", compare("y", per_head.y, fused.y, kTolerance));
      EXPECT_EQ("", compare("dqkv", per_head.dqkv, fused.dqkv, kTolerance));
      EXPECT_EQ("", compare("dx", per_head.dx, fused.dx, kTolerance));
      EXPECT_EQ("", compare("dqkv_weight", per_head.dqkv_weight, fused.dqkv_weight, kTolerance));
      EXPECT_EQ("", compare("dqkv_bias", per_head.dqkv_bias, fused.dqkv_bias, kTolerance));
      EXPECT_EQ("", compare("dout_weight", per_head.dout_weight, fused.dout_weight, kTolerance));
      EXPECT_EQ("", compare("dout_bias", per_head.dout_bias, fused.dout_bias, kTolerance));
    }
  }
}

std::vector<float> hidden(TestModel<float>& model, const std::vector<std::int32_t>& ids,
                          std::int64_t batch) {
  std::vector<KvCache<float>> none;
  const auto seq = static_cast<std::int64_t>(ids.size()) / batch;
  const Matrix<const float> h = model.gpt.hidden_states(ids.data(), batch, seq, 0, none);
  return {h.data, h.data + h.rows * h.cols};
}

TEST(Model, ChangingATokenChangesNothingBeforeIt) {
  for (const auto& [name, config] : all_shapes()) {
    SCOPED_TRACE(name);
    TestModel<float> model(config, cpu_ops(), 1, 8);
    Tokens tokens(1, 8, config.vocab_size);
    const std::vector<float> before = hidden(model, tokens.inputs, 1);
    tokens.inputs[5] = (tokens.inputs[5] + 1) % static_cast<std::int32_t>(config.vocab_size);
    const std::vector<float> after = hidden(model, tokens.inputs, 1);
    const std::size_t changed = 5 * static_cast<std::size_t>(config.d_model);
    for (std::size_t i = 0; i < changed; ++i) ASSERT_EQ(before[i], after[i]) << i;
    EXPECT_NE(std::vector<float>(before.begin() + changed, before.end()),
              std::vector<float>(after.begin() + changed, after.end()));
  }
}

TEST(Model, SequencesOfABatchAreIndependent) {
  const ModelConfig config = test::tiny_gpt2();
  TestModel<float> model(config, cpu_ops(), 2, 8);
  Tokens tokens(2, 8, config.vocab_size);
  const std::vector<float> before = hidden(model, tokens.inputs, 2);
  for (std::size_t i = 8; i < 16; ++i) tokens.inputs[i] = 0;
  const std::vector<float> after = hidden(model, tokens.inputs, 2);
  for (std::size_t i = 0; i < before.size() / 2; ++i) ASSERT_EQ(before[i], after[i]);
}

TEST(Model, CachedDecodingEqualsTheWholeForward) {
  for (const auto& [name, config] : all_shapes()) {
    SCOPED_TRACE(name);
    TestModel<float> model(config, cpu_ops(), 1, 8);
    const Tokens tokens(1, 8, config.vocab_size);
    std::vector<KvCache<float>> none;
    const Matrix<const float> whole = model.gpt.hidden_states(tokens.inputs.data(), 1, 8, 0, none);
    std::vector<float> logits(8 * static_cast<std::size_t>(config.padded_vocab()));
    model.gpt.logits(whole, {logits.data(), 8, config.padded_vocab()});
    // A prompt of three in two chunks, then one by one.
    Decoder decoder(config, cpu_ops(), model.parameters.data(), 2);
    for (std::size_t t = 2; t < 8; ++t) {
      const std::size_t begin = t == 2 ? 0 : t;
      const auto ids = std::span(tokens.inputs).subspan(begin, t - begin + 1);
      const std::span<const float> given = decoder.feed(ids);
      const float* wanted = logits.data() + t * static_cast<std::size_t>(config.padded_vocab());
      // The same sums with other multiplication shapes.
      EXPECT_EQ("", compare("logits", {given.begin(), given.end()}, {wanted, wanted + given.size()},
                            1e-5));
    }
    EXPECT_THROW(decoder.feed(tokens.inputs), Error);  // beyond the context
    decoder.reset();
    EXPECT_EQ(decoder.length(), 0);
  }
}

TEST(Model, LearnsOneBatchByHeart) {
  for (const auto& [name, config] : all_shapes()) {
    SCOPED_TRACE(name);
    Tokens tokens(2, 8, config.vocab_size);
    // With relative positions alone, a run of one token looks the same however long it is.
    tokens.inputs[0] = 0, tokens.inputs[1] = 1, tokens.inputs[8] = 2, tokens.inputs[9] = 3;
    TestModel<float> model(config, cpu_ops(), 2, 8);
    ParameterArray<float> m(model.layout), v(model.layout);
    double loss = 0;
    for (std::int64_t step = 1; step <= 400; ++step) {
      loss = model.run(tokens.view());
      cpu_ops().adamw({.parameter = model.parameters.data(),
                       .gradient = model.gradients.data(),
                       .m = m.data(),
                       .v = v.data(),
                       .count = model.layout.stored(),
                       .learning_rate = 1e-2,
                       .step = step});
    }
    EXPECT_LT(loss, 0.02);
  }
}

TEST(Model, NamesTheFirstNonFiniteTensor) {
  const ModelConfig config = test::tiny_andrea();
  const Tokens tokens(1, 8, config.vocab_size);
  TestModel<float> model(config, cpu_ops(), 1, 8);
  const auto found = [&] {
    model.run(tokens.view());
    return find_nonfinite(model.gpt, model.parameters.data(), model.gradients.data(), 8);
  };
  EXPECT_EQ(found(), "");
  // Columns of head 1's queries in layer 1, so large that the scores overflow.
  const ParameterInfo& info = model.layout.tensors()[6];
  ASSERT_EQ(info.name, "transformer.h.1.attn.c_attn.weight");
  for (std::int64_t r = 0; r < config.d_model; ++r) {
    model.parameters.data()[info.offset + r * 24 + 4] = 3e38F * (r % 2 == 0 ? 1.0F : -1.0F);
  }
  EXPECT_EQ(found().substr(0, 10), "activation");
  EXPECT_NE(found().find("L1H1"), std::string::npos) << found();
  model.parameters.data()[info.offset] = NAN;
  EXPECT_EQ(found(), "parameter transformer.h.1.attn.c_attn.weight of head L1H0");
}

TEST(Config, PresetsHaveThePublishedSizes) {
  const auto count = [](const char* name, bool tied = false) {
    ModelConfig config = preset(name);
    config.tied |= tied;
    return ParameterLayout(config).count();
  };
  EXPECT_EQ(count("andrea-12m"), 12'780'288);
  EXPECT_EQ(count("andrea-120m"), 98'698'752);
  EXPECT_EQ(count("andrea-120m", true), 92'209'920);
  EXPECT_EQ(count("andrea-480m"), 480'513'024);
  EXPECT_EQ(count("gpt2-124m"), 124'439'808);
  const ParameterLayout andrea(preset("andrea-120m"));
  EXPECT_EQ(andrea.count(ParameterGroup::kAttention), 28'311'552);
}

TEST(Config, EveryViolationIsReportedWithWhatWorks) {
  ModelConfig config = preset("andrea-120m");
  config.n_heads = {11};
  config.n_layers = 0;
  config.positions = Positions::kRope;
  config.rope_base = 0.5;
  config.head_dim = 0;
  const std::vector<std::string> found = config_violations(config);
  ASSERT_EQ(found.size(), 4U) << fmt::format("{}", fmt::join(found, "\n"));
  EXPECT_EQ(found[1], "rope_base 0.5 must be greater than 1; 10000 works");
  EXPECT_EQ(
      found[3],
      "d_model 768 is not divisible by n_heads 11; 768 works with 1, 2, 3, 4, 6, 8, 12, 16, 24, "
      "32, 48, 64, or set head_dim");
  config = preset("andrea-120m");
  config.n_heads = {11};
  config.head_dim = 64;  // set by itself, the width need not be divisible
  EXPECT_TRUE(config_violations(config).empty());
  config.positions = Positions::kRope;
  config.head_dim = 63;
  EXPECT_EQ(config_violations(config)[0],
            "positions rope turns pairs of dimensions, and head_dim 63 is odd; 64 works");
  config.n_heads = {4, 4};
  config.head_dim = 64;
  EXPECT_EQ(config_violations(config)[0],
            "n_heads lists 2 layers but n_layers is 12; give one number or 12");
  EXPECT_THROW(preset("andrea-12"), Error);
}

TEST(Config, UnknownKeysAreRefusedWithTheNearest) {
  ModelConfig config;
  try {
    fields_from_json(config, {{"d_modle", 3}});
    FAIL() << "d_modle was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(), "unknown key d_modle, did you mean d_model?");
  }
  EXPECT_THROW(set_field(config, "d_model", "wide"), Error);
  EXPECT_THROW(set_field(config, "norm", "batchnorm"), Error);
}

TEST(Config, SurvivesTomlAndFlags) {
  ModelConfig config = test::tiny_odd();
  config.norm_eps = 1e-6;
  ModelConfig copy;
  fields_from_json(copy, parse_toml(to_toml(fields_to_json(config)), "test"));
  EXPECT_EQ(fields_to_json(copy), fields_to_json(config));
  set_field_from_text(copy, "n_heads", "4,4");
  EXPECT_EQ(copy.n_heads, (std::vector<std::int64_t>{4, 4}));
  set_field_from_text(copy, "tied", "true");
  EXPECT_TRUE(copy.tied);
  EXPECT_THROW(set_field_from_text(copy, "d_model", "12x"), Error);
}

}  // namespace
}  // namespace headloom
