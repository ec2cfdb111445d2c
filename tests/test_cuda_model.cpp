// The CUDA kernels as a whole backend, under the emulation: ops against the reference, and tiny
// models of every shape trained on it beside the CPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "base/temporary.h"
#include "ops/emulated.h"
#include "selftest/tiny_models.h"
#include "simt/simt.h"
#include "train/trainer.h"

namespace headloom {
namespace {

using test::compare;
using test::random_numbers;
using test::TestModel;

Matrix<float> matrix(std::vector<float>& x, std::int64_t rows, std::int64_t cols) {
  return {x.data(), rows, cols};
}

// fp32 sums of up to a few hundred terms on both sides.
constexpr double kTolerance = 5e-6;

TEST(EmulatedOps, NormsEqualTheReference) {
  for (const std::int64_t cols : {1, 33, 128, 200}) {
    for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
      const std::int64_t rows = 5;
      const auto run = [&](const Ops<float>& ops) {
        std::vector<float> x = random_numbers<float>(rows * cols, 1), add(x), sum(x), y(x), dx(x);
        const std::vector<float> gain = random_numbers<float>(cols, 2),
                                 bias = random_numbers<float>(cols, 3);
        std::vector<float> dy = random_numbers<float>(rows * cols, 4), mean(5), rstd(5);
        std::vector<float> dgain(gain), dbias(bias);
        ops.norm_forward({.kind = kind,
                          .x = matrix(x, rows, cols),
                          .add = matrix(add, rows, cols),
                          .sum = matrix(sum, rows, cols),
                          .gain = gain.data(),
                          .bias = bias.data(),
                          .y = matrix(y, rows, cols),
                          .mean = mean.data(),
                          .rstd = rstd.data()});
        ops.norm_backward({.kind = kind,
                           .x = matrix(sum, rows, cols),
                           .gain = gain.data(),
                           .mean = mean.data(),
                           .rstd = rstd.data(),
                           .dy = matrix(dy, rows, cols),
                           .dresidual = matrix(dx, rows, cols),
                           .dx = matrix(dx, rows, cols),
                           .dgain = dgain.data(),
                           .dbias = dbias.data()});
        std::vector<float> all;
        for (const auto& part : {sum, y, dx, dgain, dbias})
          all.insert(all.end(), part.begin(), part.end());
        return all;
      };
      // A single column leaves layernorm nothing but rounding, so errors are measured against 1.
      EXPECT_EQ("", compare("norm", run(emulated_ops()), run(ref_ops<float>()), kTolerance, 1));
    }
  }
}

/// Named results of one op, to be compared one by one: each has a size of its own.
using Results = std::vector<std::pair<std::string, std::vector<float>>>;

template <class Run>
void expect_equal(Run&& run) {
  const Results given = run(emulated_ops()), wanted = run(ref_ops<float>());
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ("", compare(given[i].first.c_str(), given[i].second, wanted[i].second, kTolerance));
  }
}

TEST(EmulatedOps, CrossEntropyEqualsTheReference) {
  for (const std::int64_t vocab : {2, 13, 150}) {
    for (const bool gradient : {true, false}) {
      expect_equal([&](const Ops<float>& ops) -> Results {
        const std::int64_t padded = (vocab + 15) / 16 * 16;
        std::vector<float> logits = random_numbers<float>(4 * padded, 1, 3), losses(4);
        const std::vector<std::int32_t> targets = {0, 1, kIgnoredTarget,
                                                   static_cast<std::int32_t>(vocab - 1)};
        ops.cross_entropy({.logits = matrix(logits, 4, padded),
                           .vocab = vocab,
                           .targets = targets.data(),
                           .losses = losses.data(),
                           .write_gradient = gradient,
                           .gradient_scale = 0.25});
        return {{"logits", logits}, {"losses", losses}};
      });
    }
  }
}

TEST(EmulatedOps, RopeKeepsFarAngles) {
  for (const std::int64_t first : {0, 30000}) {
    expect_equal([&](const Ops<float>& ops) -> Results {
      std::vector<float> x = random_numbers<float>(3 * 7 * 2 * 8, 2);
      ops.rope({.x = Heads<float>(x.data(), 3, 7, 2, 8, 7 * 16, 16), .first_position = first});
      return {{"x", x}};
    });
  }
}

TEST(EmulatedOps, ActivationsEqualTheReference) {
  for (const Activation kind :
       {Activation::kGeluTanh, Activation::kRelu, Activation::kRelu2, Activation::kSwiGlu}) {
    expect_equal([&](const Ops<float>& ops) -> Results {
      const std::int64_t wide = is_gated(kind) ? 2 * 37 : 37;
      std::vector<float> x = random_numbers<float>(5 * wide, 1, 2), y(5 * 37), dx(x.size());
      std::vector<float> dy = random_numbers<float>(5 * 37, 2);
      ops.activation_forward({kind, matrix(x, 5, wide), matrix(y, 5, 37)});
      ops.activation_backward({kind, matrix(x, 5, wide), matrix(dy, 5, 37), matrix(dx, 5, wide)});
      return {{"y", y}, {"dx", dx}};
    });
  }
}

TEST(EmulatedOps, UpdatesAndSumsEqualTheReference) {
  expect_equal([&](const Ops<float>& ops) -> Results {
    std::vector<float> x = random_numbers<float>(5 * 150, 1), sum = random_numbers<float>(150, 2);
    ops.column_sum({matrix(x, 5, 150), sum.data()});
    double squares = 0;
    ops.sum_squares({x.data(), 750, &squares});
    std::vector<float> m = random_numbers<float>(750, 3, 0.1), p = random_numbers<float>(750, 4);
    std::vector<float> v = m;
    for (float& value : v) value *= value;
    ops.adamw({.parameter = p.data(),
               .gradient = x.data(),
               .m = m.data(),
               .v = v.data(),
               .count = 750,
               .learning_rate = 0.01,
               .beta2 = 0.9999,
               .weight_decay = 0.1,
               .gradient_scale = 0.5,
               .step = 3});
    return {{"sum", sum}, {"squares", {static_cast<float>(squares)}}, {"p", p}, {"m", m}, {"v", v}};
  });
}

TEST(EmulatedOps, MoreItemsThanAGridHasThreads) {
  const std::int64_t count = std::int64_t{65535} * 128 + 5;  // the last five are a second round
  std::vector<float> x(static_cast<std::size_t>(count), 1.0F);
  emulated_ops().zero({x.data(), count});
  EXPECT_EQ(std::count(x.begin(), x.end(), 0.0F), count);
}

TEST(EmulatedOps, AttentionWithGatesAndFewerQueriesEqualsTheReference) {
  struct Sizes {
    std::int64_t queries, keys, dim;
  };
  for (const Sizes& s : {Sizes{1, 9, 12}, {5, 70, 12}, {70, 70, 12}, {130, 130, 12}, {9, 9, 130}}) {
    const std::int64_t heads = 4, kv = 2;
    expect_equal([&](const Ops<float>& ops) -> Results {
      const auto view = [&](std::vector<float>& x, std::int64_t seq, std::int64_t n) {
        x.resize(static_cast<std::size_t>(2 * seq * n * s.dim));
        return Heads<float>(x.data(), 2, seq, n, s.dim, seq * n * s.dim, n * s.dim);
      };
      std::vector<float> q = random_numbers<float>(2 * s.queries * heads * s.dim, 1);
      std::vector<float> k = random_numbers<float>(2 * s.keys * kv * s.dim, 2);
      std::vector<float> v = random_numbers<float>(2 * s.keys * kv * s.dim, 3), dout(q);
      std::vector<float> out, dq, dk, dv, dgate(8);
      std::vector<float> lse(static_cast<std::size_t>(2 * heads * s.queries));
      const std::vector<float> gate = {1, 0, -0.5F, 1e-5F};
      const Heads<float> qv = view(q, s.queries, heads), kview = view(k, s.keys, kv),
                         vview = view(v, s.keys, kv), ov = view(out, s.queries, heads);
      ops.attend_forward({qv, kview, vview, ov, lse.data(), gate.data()});
      if (s.queries == s.keys) {
        ops.attend_backward({qv, kview, vview, ov, view(dout, s.queries, heads), lse.data(),
                             view(dq, s.queries, heads), view(dk, s.keys, kv), view(dv, s.keys, kv),
                             gate.data(), dgate.data()});
      }
      return {{"out", out}, {"lse", lse}, {"dq", dq}, {"dk", dk}, {"dv", dv}, {"dgate", dgate}};
    });
  }
}

class EmulatedModel : public testing::TestWithParam<ModelConfig> {
 protected:
  void TearDown() override { simt::emu_options() = simt::EmuOptions(); }
};

TEST_P(EmulatedModel, GradientsEqualTheReferenceInAnyOrderOfTheLanes) {
  const ModelConfig config = GetParam();
  const test::Tokens tokens(2, 8, config.vocab_size);
  TestModel<double> exact(config, ref_ops<double>(), 2, 8);
  const double wanted_loss = exact.run(tokens.view());
  for (const std::uint64_t seed : {0, 1, 7}) {
    simt::emu_options().seed = seed;
    TestModel<float> model(config, emulated_ops(), 2, 8);
    EXPECT_NEAR(model.run(tokens.view()), wanted_loss, 1e-5 * wanted_loss);
    const HostNumbers<float> gradients = model.gradients.on_host();
    for (const ParameterInfo& info : model.layout.tensors()) {
      const float* given = gradients.data() + info.offset;
      const double* wanted = exact.gradients.data() + info.offset;
      // As for the CPU: two layers of fp32 sums of a few dozen terms each.
      EXPECT_EQ("", compare(info.name.c_str(), {given, given + info.size()},
                            {wanted, wanted + info.size()}, 1e-5));
    }
  }
}

/// Losses of 20 optimizer steps.
std::vector<double> losses_of(const ModelConfig& model, const Ops<float>& ops) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "a bead, a bad bed, a cab; ";
  write_file_atomic(folder.path() / "text", text);
  const Tokenizer tokenizer = Tokenizer::bytes();
  TokenCache::build(folder.path() / "tokens", {{folder.path() / "text"}, ""}, tokenizer, 0);
  const TokenCache tokens(folder.path() / "tokens", tokenizer.vocab_size());
  RunConfig config;
  config.model = model;
  config.model.vocab_size = tokenizer.vocab_size();
  config.model.context = 8;
  config.train.batch = 2;
  config.train.warmup = 5;
  config.train.learning_rate = 1e-2;
  Trainer trainer(config, tokens, split_corpus(tokens.size(), 8, 0), ops);
  std::vector<double> losses;
  for (int i = 0; i < 20; ++i) losses.push_back(trainer.step().loss);
  return losses;
}

TEST_P(EmulatedModel, TwentyStepsHaveTheLossesOfTheCpu) {
  const std::vector<double> cpu = losses_of(GetParam(), cpu_ops());
  const std::vector<double> emulated = losses_of(GetParam(), emulated_ops());
  for (std::size_t i = 0; i < cpu.size(); ++i)
    EXPECT_NEAR(cpu[i], emulated[i], 1e-4) << "step " << i;
  EXPECT_LT(emulated.back(), 0.8 * emulated.front());
}

INSTANTIATE_TEST_SUITE_P(Shapes, EmulatedModel,
                         testing::Values(test::tiny_gpt2(), test::tiny_andrea(), test::tiny_odd(),
                                         test::tiny_llama()));

}  // namespace
}  // namespace headloom
