// The CUDA kernels as a whole backend, under the emulation: ops against the reference, and tiny
// models of every shape trained on it beside the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "base/files.h"
#include "base/temporary.h"
#include "bench/attention_bench.h"
#include "bench/train_bench.h"
#include "heads/examination.h"
#include "heads/live_probe.h"
#include "ops/emulated.h"
#include "selftest/device_array.h"
#include "selftest/selftest.h"
#include "selftest/tiny_models.h"
#include "simt/global_memory.h"
#include "simt/simt.h"
#include "train/plan.h"
#include "train/run.h"

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

INSTANTIATE_TEST_SUITE_P(Shapes, EmulatedModel,
                         testing::Values(test::tiny_gpt2(), test::tiny_andrea(), test::tiny_odd(),
                                         test::tiny_llama()));

class EmulatedBackend : public testing::TestWithParam<Precision> {
 protected:
  // As a card has it whose blocks may use most.
  void SetUp() override {
    simt::emu_options().max_shared = simt::kSharedOfSm90;
    // test_cuda_attend watches shared memory; here it is the way from op to op that matters.
    simt::emu_options().races = false;
  }
  void TearDown() override {
    simt::emu_options() = simt::EmuOptions();
    set_emulated_memory(0);
  }
};

// What `headloom selftest --device cuda` runs on a card: every op, gradients, decoding, training
// beside the CPU, determinism, resume.
TEST_P(EmulatedBackend, PassesTheSelfTest) {
  const std::int64_t replays = emulated_device_report().replays;
  for (const SelfCheck& check : self_checks(emulated_ops(GetParam()), GetParam())) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ("", check.run()) << check.name;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%-64s%8.2f s\n", check.name.c_str(), took.count());
  }
  EXPECT_GT(emulated_device_report().replays, replays + 50) << "steps were not recorded";
}

INSTANTIATE_TEST_SUITE_P(Precisions, EmulatedBackend,
                         testing::Values(Precision::kFp32, Precision::kBf16),
                         [](const testing::TestParamInfo<Precision>& info) {
                           return std::string(enum_name(info.param));
                         });

TEST(EmulatedDevice, LetsNobodyFollowItsAddresses) {
  const test::DeviceArray numbers(*emulated_ops().device, std::vector<float>{1, 2, 3});
  EXPECT_DEATH(std::printf("%f", static_cast<double>(numbers.data()[1])), "");
  EXPECT_EQ(numbers.read(), (std::vector<float>{1, 2, 3}));
}

TEST(EmulatedDevice, WatchesTheBoundsOfEveryTensor) {
  if (!simt::emu::watches_global_memory()) GTEST_SKIP() << "kernels are not watched in this build";
  const Ops<float>& ops = emulated_ops();
  const test::DeviceArray numbers(*ops.device, 100);
  ops.zero({numbers.data(), 100});
  EXPECT_THROW(ops.zero({numbers.data(), 101}), simt::Error);
}

TEST(EmulatedDevice, SaysWhatDoesNotFitAndWhatWould) {
  ModelConfig config = test::tiny_gpt2();
  const Ops<float>& ops = emulated_ops();
  const std::int64_t one = plan_memory(config, 1, config.context, &ops).total();
  try {
    require_memory(config, 64, one + 1000, &ops);
    FAIL() << "64 sequences fit where one does";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("batch 1 fits"), std::string::npos) << error.what();
  }
  set_emulated_memory(emulated_device_report().allocated + 10000);
  EXPECT_THROW(test::DeviceArray(*ops.device, 10000), Error);
  set_emulated_memory(0);
}

TEST(EmulatedDevice, NotesWhatAHeadDimRunsAs) {
  EXPECT_NE(emulated_ops(Precision::kBf16).head_dim_note(72).find("tiles of 96"),
            std::string::npos);
  EXPECT_EQ(emulated_ops(Precision::kBf16).head_dim_note(64), "head_dim 64: tiles on tensor cores");
  EXPECT_NE(emulated_ops(Precision::kBf16).head_dim_note(160).find("fp32"), std::string::npos);
  EXPECT_NE(emulated_ops().head_dim_note(64).find("row by row"), std::string::npos);
}

/// A run as `headloom train` makes it.
class EmulatedRun : public testing::Test {
 protected:
  EmulatedRun() {
    add_backend("emulated", [](Precision p) -> const Ops<float>& { return emulated_ops(p); });
    std::string text;
    for (int i = 0; i < 60; ++i) text += "a bead, a bad bed, a cab; ";
    write_file_atomic(folder_.path() / "text", text);
  }
  TrainRequest request(const std::string& device, const std::string& run) const {
    TrainInputs inputs;
    inputs.corpus = {(folder_.path() / "text").string()};
    inputs.out = (folder_.path() / run).string();
    inputs.model = {{"d_model", "16"}, {"n_heads", "2"}, {"n_layers", "2"}, {"context", "8"}};
    inputs.train = {{"steps", "8"},        {"batch", "2"},        {"warmup", "2"},
                    {"probe_every", "4"},  {"sample_every", "8"}, {"checkpoint_every", "4"},
                    {"sample_tokens", "6"}};
    inputs.data = {{"tokenizer", "bytes"}};
    TrainRequest made = make_train_request(inputs);
    made.verbosity = Verbosity::kQuiet;
    made.backend.device = device;
    made.watch = watch_heads;
    return made;
  }
  std::vector<std::string> lines(const std::string& run, const char* file) const {
    std::istringstream in(read_file(folder_.path() / run / file));
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  TemporaryFolder folder_;
};

TEST_F(EmulatedRun, TrainsWatchesSamplesAndGoesOnAsTheCpuDoes) {
  double on_cpu = 0, on_device = 0, gone_on = 0;
  ASSERT_EQ(train_run(request("cpu", "cpu"), &on_cpu), 0);
  ASSERT_EQ(train_run(request("emulated", "device"), &on_device), 0);
  EXPECT_NEAR(on_cpu, on_device, 1e-4);

  const auto heads = lines("device", "heads.jsonl"), wanted = lines("cpu", "heads.jsonl");
  ASSERT_EQ(heads.size(), wanted.size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const Json given = Json::parse(heads[i])["heads"], right = Json::parse(wanted[i])["heads"];
    for (std::size_t h = 0; h < right.size(); ++h) {
      for (const char* key : {"gradient_share", "update_share", "importance", "entropy", "sink"}) {
        EXPECT_NEAR(given[h][key].get<double>(), right[h][key].get<double>(), 1e-3) << key;
      }
    }
  }
  const auto sampled = [&](const std::string& run) {
    for (const std::string& line : lines(run, "metrics.jsonl")) {
      const Json one = Json::parse(line);
      if (one.contains("sample")) return one["sample"].get<std::string>();
    }
    return std::string("no sample");
  };
  EXPECT_EQ(sampled("device"), sampled("cpu"));

  // A run of one device goes on on another.
  const auto go_on = [&](const std::string& run, const std::string& device, double* loss) {
    TrainInputs inputs;
    inputs.resume = (folder_.path() / run).string();
    inputs.train = {{"steps", "10"}};
    TrainRequest more = make_train_request(inputs);
    more.verbosity = Verbosity::kQuiet;
    more.backend.device = device;
    return train_run(more, loss);
  };
  ASSERT_EQ(go_on("device", "cpu", &gone_on), 0);
  ASSERT_EQ(go_on("cpu", "emulated", &on_cpu), 0);
  EXPECT_NEAR(gone_on, on_cpu, 1e-4);
}

TEST_F(EmulatedRun, HeadsAreExaminedAsOnTheCpu) {
  ASSERT_EQ(train_run(request("cpu", "run")), 0);
  const LoadedModel model = load_model(folder_.path() / "run");
  const QuestionRequest asked{.text = (folder_.path() / "text").string(), .sequences = 6};
  const auto run = folder_.path() / "run";
  const Examination wanted = examine(model, make_questions(run, model, asked), 1);
  const Examination given =
      examine(model, make_questions(run, model, asked), 1, {}, emulated_ops());
  EXPECT_NEAR(given.loss, wanted.loss, 1e-5);
  for (std::size_t h = 0; h < wanted.heads.size(); ++h) {
    EXPECT_NEAR(given.heads[h].cost.mean, wanted.heads[h].cost.mean, 1e-4);
    EXPECT_NEAR(given.heads[h].gradient.importance, wanted.heads[h].gradient.importance, 1e-4);
    for (std::size_t p = 0; p < wanted.heads[h].scores.patterns.size(); ++p) {
      EXPECT_NEAR(given.heads[h].scores.patterns[p].lift, wanted.heads[h].scores.patterns[p].lift,
                  1e-4);
    }
  }
}

TEST_F(EmulatedRun, BenchmarksRunOnIt) {
  const Ops<float>& ops = emulated_ops();
  ModelConfig config = test::tiny_gpt2();
  config.vocab_size = Tokenizer::bytes().vocab_size();
  const TrainBench bench = bench_train(config, 1, 2, ops);
  EXPECT_GT(bench.seconds_per_step, 0);
  EXPECT_GT(bench.ops.size(), 8U);
  const std::vector<BenchRow> rows = bench_attention({1, 9, {2, 2, 8}}, ops);
  EXPECT_EQ(rows.size(), 6U);
}

}  // namespace
}  // namespace headloom
