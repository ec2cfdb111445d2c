// Every op besides attention: the CPU version against the scalar reference over ragged shapes, and
// the reference's gradients against the complex step.
#include <gtest/gtest.h>

#include <cmath>

#include "base/threads.h"
#include "ops/backend.h"
#include "selftest/numbers.h"

namespace headloom {
namespace {

using C = std::complex<double>;
using test::compare;
using test::matrix;
using test::random_numbers;

// One multiplication, addition or polynomial per element: a few ulps (6e-8) of the largest value.
constexpr double kElementwise = 1e-6;
// Sums of up to 800 products; the rounding of a sum of n grows like sqrt(n) ulps (6e-8) of its
// size.
constexpr double kSummed = 3e-6;

const std::int64_t kRowCounts[] = {1, 2, 7, 33};
const std::int64_t kColCounts[] = {1, 7, 16, 63, 65, 130};

/// Runs `body(rows, cols)` over ragged shapes.
template <class Body>
void over_shapes(Body body) {
  for (const std::int64_t rows : kRowCounts) {
    for (const std::int64_t cols : kColCounts) {
      SCOPED_TRACE(fmt::format("{} x {}", rows, cols));
      body(rows, cols);
    }
  }
}

/// Derivative of loss(x) = sum of weights * f(x) along x[i], by the complex step.
template <class F>
double slope(std::vector<C>& x, std::size_t i, const std::vector<C>& weights, F f) {
  const C kept = x[i];
  x[i] += C(0, test::kComplexStep);
  const std::vector<C> y = f();
  x[i] = kept;
  C loss = 0;
  for (std::size_t j = 0; j < y.size(); ++j) loss += weights[j] * y[j];
  return loss.imag() / test::kComplexStep;
}

/// How C is cut depends on the threads: with one, a piece has several blocks.
class GemmOp : public testing::TestWithParam<int> {
 protected:
  GemmOp() { set_thread_count(GetParam()); }
  ~GemmOp() override { set_thread_count(before_); }

 private:
  int before_ = thread_count();
};

TEST_P(GemmOp, CpuEqualsReferenceInEveryVariant) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                {7, 5, 3},
                                {33, 65, 24},
                                {64, 48, 130},
                                {2, 130, 63},
                                {3, 4, 0},
                                {1100, 33, 40},     // several blocks of rows
                                {70, 1030, 390},    // pieces by columns, several slabs
                                {530, 70, 800}}) {  // all of it
    for (int variant = 0; variant < 16; ++variant) {
      SCOPED_TRACE(fmt::format("{} x {} x {}, variant {}", m, n, k, variant));
      const bool ta = variant & 1, tb = variant & 2, add = variant & 4, with_bias = variant & 8;
      if (add && with_bias) continue;
      // Rows two wider than the matrix: the views are strided.
      const std::int64_t a_cols = ta ? m : k, b_cols = tb ? k : n;
      auto a = random_numbers<float>((ta ? k : m) * (a_cols + 2), 1);
      auto b = random_numbers<float>((tb ? n : k) * (b_cols + 2), 2);
      auto bias = random_numbers<float>(n, 3);
      auto c = random_numbers<float>(m * (n + 2), 4);
      auto wanted = c;
      const auto args = [&](std::vector<float>& out) {
        return headloom::Gemm<float>{.a = {a.data(), ta ? k : m, a_cols, a_cols + 2},
                                     .transpose_a = ta,
                                     .b = {b.data(), tb ? n : k, b_cols, b_cols + 2},
                                     .transpose_b = tb,
                                     .c = {out.data(), m, n, n + 2},
                                     .accumulate = add,
                                     .bias = with_bias ? bias.data() : nullptr};
      };
      cpu_ops().gemm(args(c));
      ref_ops<float>().gemm(args(wanted));
      EXPECT_EQ("", compare("c", c, wanted, kSummed));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, GemmOp, testing::Values(1, 2, 5));

struct NormProblem {
  std::vector<float> x, add, sum, gain, bias, y, mean, rstd, dy, residual, dx, dgain, dbias;

  NormProblem(std::int64_t rows, std::int64_t cols) {
    x = random_numbers<float>(rows * cols, 1, 2.0);
    add = random_numbers<float>(rows * cols, 2);
    gain = random_numbers<float>(cols, 3);
    bias = random_numbers<float>(cols, 4);
    dy = random_numbers<float>(rows * cols, 5);
    residual = random_numbers<float>(rows * cols, 6);
    dgain = random_numbers<float>(cols, 7);  // backward adds to what is there
    dbias = random_numbers<float>(cols, 8);
    sum = y = dx = x;
    mean.resize(static_cast<std::size_t>(rows));
    rstd.resize(static_cast<std::size_t>(rows));
  }
  void run(const Ops<float>& ops, NormKind kind, bool with_add, bool affine, std::int64_t rows,
           std::int64_t cols) {
    NormForward<float> forward{
        .kind = kind, .x = matrix(x, rows, cols), .y = matrix(y, rows, cols)};
    if (with_add) {
      forward.add = matrix(add, rows, cols);
      forward.sum = matrix(sum, rows, cols);
    }
    forward.gain = affine ? gain.data() : nullptr;
    forward.bias = affine ? bias.data() : nullptr;
    forward.mean = mean.data();
    forward.rstd = rstd.data();
    ops.norm_forward(forward);
    ops.norm_backward({.kind = kind,
                       .x = with_add ? forward.sum : matrix(x, rows, cols),
                       .gain = forward.gain,
                       .mean = mean.data(),
                       .rstd = rstd.data(),
                       .dy = matrix(dy, rows, cols),
                       .dresidual = with_add ? matrix(residual, rows, cols) : Matrix<float>(),
                       .dx = matrix(dx, rows, cols),
                       .dgain = affine ? dgain.data() : nullptr,
                       .dbias = affine ? dbias.data() : nullptr});
  }
};

TEST(Norm, CpuEqualsReference) {
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    for (const bool with_add : {false, true}) {
      for (const bool affine : {false, true}) {
        over_shapes([&](std::int64_t rows, std::int64_t cols) {
          // One column: layernorm's variance is exactly 0, and rstd amplifies rounding by 300.
          if (cols == 1 && kind == NormKind::kLayerNorm) return;
          NormProblem fast(rows, cols), wanted(rows, cols);
          fast.run(cpu_ops(), kind, with_add, affine, rows, cols);
          wanted.run(ref_ops<float>(), kind, with_add, affine, rows, cols);
          EXPECT_EQ("", compare("sum", fast.sum, wanted.sum, kElementwise));
          EXPECT_EQ("", compare("y", fast.y, wanted.y, kSummed));
          EXPECT_EQ("", compare("rstd", fast.rstd, wanted.rstd, kSummed));
          EXPECT_EQ("", compare("dx", fast.dx, wanted.dx, 2 * kSummed, 1.0));
          EXPECT_EQ("", compare("dgain", fast.dgain, wanted.dgain, kSummed));
          EXPECT_EQ("", compare("dbias", fast.dbias, wanted.dbias, kSummed));
        });
      }
    }
  }
}

TEST(Norm, ReferenceAgreesWithTheComplexStep) {
  constexpr std::int64_t kRows = 2, kCols = 5;
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    auto x = random_numbers<C>(kRows * kCols, 1);
    auto gain = random_numbers<C>(kCols, 2), bias = random_numbers<C>(kCols, 3);
    const auto dy = random_numbers<C>(kRows * kCols, 4);
    std::vector<C> y(x.size()), mean(kRows), rstd(kRows), dx(x.size()), dgain(kCols), dbias(kCols);
    const auto forward = [&] {
      NormForward<C> args{.kind = kind, .x = matrix(x, kRows, kCols), .y = matrix(y, kRows, kCols)};
      args.gain = gain.data();
      args.bias = bias.data();
      args.mean = mean.data();
      args.rstd = rstd.data();
      ref_ops<C>().norm_forward(args);
      return y;
    };
    forward();
    auto dy_copy = dy;
    ref_ops<C>().norm_backward({.kind = kind,
                                .x = matrix(x, kRows, kCols),
                                .gain = gain.data(),
                                .mean = mean.data(),
                                .rstd = rstd.data(),
                                .dy = matrix(dy_copy, kRows, kCols),
                                .dx = matrix(dx, kRows, kCols),
                                .dgain = dgain.data(),
                                .dbias = dbias.data()});
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(slope(x, i, dy, forward), dx[i].real(), 1e-12);
    }
    for (std::size_t i = 0; i < kCols; ++i) {
      EXPECT_NEAR(slope(gain, i, dy, forward), dgain[i].real(), 1e-12);
      EXPECT_NEAR(slope(bias, i, dy, forward), dbias[i].real(), 1e-12);
    }
  }
}

constexpr Activation kActivations[] = {Activation::kGeluTanh, Activation::kRelu, Activation::kRelu2,
                                       Activation::kSwiGlu};

TEST(ActivationOp, CpuEqualsReference) {
  for (const Activation kind : kActivations) {
    over_shapes([&](std::int64_t rows, std::int64_t cols) {
      const std::int64_t in = is_gated(kind) ? 2 * cols : cols;
      auto x = random_numbers<float>(rows * in, 1, 3.0), dy = random_numbers<float>(rows * cols, 2);
      x[0] = 40.0F;  // where a careless exponential overflows
      if (x.size() > 1) x[1] = -40.0F;
      auto y = dy, dx = x, wanted_y = dy, wanted_dx = x;
      cpu_ops().activation_forward({kind, matrix(x, rows, in), matrix(y, rows, cols)});
      ref_ops<float>().activation_forward(
          {kind, matrix(x, rows, in), matrix(wanted_y, rows, cols)});
      EXPECT_EQ("", compare("y", y, wanted_y, kElementwise));
      cpu_ops().activation_backward(
          {kind, matrix(x, rows, in), matrix(dy, rows, cols), matrix(dx, rows, in)});
      // The model lets dy stand in dx's last columns.
      const Matrix<float> wanted = matrix(wanted_dx, rows, in),
                          last = wanted.col_range(in - cols, cols);
      for (std::int64_t r = 0; r < rows; ++r) std::copy_n(&dy[r * cols], cols, last.row(r));
      ref_ops<float>().activation_backward({kind, matrix(x, rows, in), last, wanted});
      // The float reference itself cancels in 1 - tanh^2, so it is no better than this.
      EXPECT_EQ("", compare("dx", dx, wanted_dx, 2 * kElementwise));
    });
  }
}

TEST(ActivationOp, ReferenceAgreesWithTheComplexStepAndKeepsNan) {
  for (const Activation kind : kActivations) {
    const std::int64_t out_cols = is_gated(kind) ? 20 : 40;
    auto x = random_numbers<C>(40, 1);
    const std::vector<C> ones(static_cast<std::size_t>(out_cols), 1.0);
    std::vector<C> y(ones.size()), dx(x.size());
    auto dy = ones;
    const auto forward = [&] {
      ref_ops<C>().activation_forward({kind, matrix(x, 1, 40), matrix(y, 1, out_cols)});
      return y;
    };
    ref_ops<C>().activation_backward(
        {kind, matrix(x, 1, 40), matrix(dy, 1, out_cols), matrix(dx, 1, 40)});
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(slope(x, i, ones, forward), dx[i].real(), 1e-12);
    }
    std::vector<float> nan(20, NAN), out(is_gated(kind) ? 10 : 20);
    for (const Ops<float>* ops : {&cpu_ops(), &ref_ops<float>()}) {
      ops->activation_forward(
          {kind, matrix(nan, 1, 20), matrix(out, 1, static_cast<std::int64_t>(out.size()))});
      for (const float value : out) EXPECT_TRUE(std::isnan(value)) << enum_name(kind);
    }
  }
}

/// [2, seq, 3, dim] in rows four wider than the heads.
Heads<float> rope_view(std::vector<float>& x, std::int64_t seq, std::int64_t dim) {
  const std::int64_t width = 3 * dim + 4;
  return {x.data(), 2, seq, 3, dim, seq * width, width};
}

TEST(RopeOp, CpuEqualsReferenceAndTurnsBack) {
  for (const std::int64_t dim : {2, 6, 32, 34, 64, 130}) {
    for (const std::int64_t seq : {1, 3, 40}) {
      SCOPED_TRACE(fmt::format("dim {} seq {}", dim, seq));
      auto x = random_numbers<float>(2 * seq * (3 * dim + 4), 1);
      auto turned = x, wanted = x;
      cpu_ops().rope({.x = rope_view(turned, seq, dim), .first_position = 900});
      ref_ops<float>().rope({.x = rope_view(wanted, seq, dim), .first_position = 900});
      EXPECT_EQ("", compare("x", turned, wanted, kElementwise));
      EXPECT_NE(turned, x);
      cpu_ops().rope({.x = rope_view(turned, seq, dim), .first_position = 900, .inverse = true});
      EXPECT_EQ("", compare("back", turned, x, kElementwise));
    }
  }
  std::vector<float> odd(9);
  EXPECT_THROW(cpu_ops().rope({.x = {odd.data(), 1, 1, 3, 3, 9, 9}}), Error);
}

TEST(RopeOp, TheProductOfTwoRowsDependsOnTheirDistanceAlone) {
  const auto product = [](std::int64_t query, std::int64_t key) {
    auto q = random_numbers<double>(16, 1), k = random_numbers<double>(16, 2);
    ref_ops<double>().rope({.x = {q.data(), 1, 1, 1, 16, 16, 16}, .first_position = query});
    ref_ops<double>().rope({.x = {k.data(), 1, 1, 1, 16, 16, 16}, .first_position = key});
    double sum = 0;
    for (std::size_t i = 0; i < q.size(); ++i) sum += q[i] * k[i];
    return sum;
  };
  EXPECT_NEAR(product(7, 3), product(104, 100), 1e-12);
  EXPECT_GT(std::abs(product(7, 3) - product(7, 4)), 1e-3);
}

TEST(CrossEntropyOp, CpuEqualsReferenceAndPaddingIsNotThere) {
  for (const std::int64_t vocab : {1, 2, 15, 17, 257, 4353}) {
    constexpr std::int64_t kRows = 9;
    const std::int64_t cols = (vocab + 15) / 16 * 16;
    auto logits = random_numbers<float>(kRows * cols, 1, 5.0);
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t v = vocab; v < cols; ++v) logits[r * cols + v] = 1e30F;
    }
    auto wanted = logits;
    std::vector<std::int32_t> targets;
    for (std::int64_t r = 0; r < kRows; ++r)
      targets.push_back(static_cast<std::int32_t>(r * 7 % vocab));
    targets[4] = kIgnoredTarget;
    std::vector<float> losses(kRows), wanted_losses(kRows);
    cpu_ops().cross_entropy(
        {matrix(logits, kRows, cols), vocab, targets.data(), losses.data(), true, 0.5});
    ref_ops<float>().cross_entropy(
        {matrix(wanted, kRows, cols), vocab, targets.data(), wanted_losses.data(), true, 0.5});
    EXPECT_EQ("", compare("losses", losses, wanted_losses, kSummed, 1.0));
    EXPECT_EQ("", compare("dlogits", logits, wanted, kSummed));
    EXPECT_EQ(losses[4], 0.0F);
    for (std::int64_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (std::int64_t v = 0; v < cols; ++v) sum += logits[r * cols + v];
      EXPECT_NEAR(sum, 0, 4e-6);  // probabilities sum to one, less the target
      for (std::int64_t v = vocab; v < cols; ++v) EXPECT_EQ(logits[r * cols + v], 0.0F);
    }
  }
}

TEST(CrossEntropyOp, HugeAndInfiniteLogitsStayExact) {
  for (const Ops<float>* ops : {&cpu_ops(), &ref_ops<float>()}) {
    std::vector<float> logits(16, -INFINITY), losses(1);
    logits[3] = 1e4F;
    const std::int32_t target = 3;
    ops->cross_entropy({matrix(logits, 1, 16), 16, &target, losses.data(), true, 1.0});
    EXPECT_NEAR(losses[0], 0.0F, 2e-7) << ops->name;  // the SIMD 2^0 is 1 + 7e-8
    for (const float gradient : logits) EXPECT_EQ(gradient, 0.0F) << ops->name;
  }
}

TEST(CrossEntropyOp, ReferenceAgreesWithTheComplexStep) {
  constexpr std::int64_t kVocab = 7;
  auto x = random_numbers<C>(kVocab, 1);
  const std::int32_t target = 2;
  std::vector<C> losses(1), gradient = x;
  ref_ops<C>().cross_entropy(
      {matrix(gradient, 1, kVocab), kVocab, &target, losses.data(), true, 1.0});
  const auto forward = [&] {
    ref_ops<C>().cross_entropy({matrix(x, 1, kVocab), kVocab, &target, losses.data(), false, 1.0});
    return losses;
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(slope(x, i, {1.0}, forward), gradient[i].real(), 1e-12);
  }
}

TEST(Embed, CpuEqualsReference) {
  constexpr std::int64_t kVocab = 11, kSeq = 6, kRows = 3 * kSeq;
  for (const std::int64_t cols : kColCounts) {
    auto table = random_numbers<float>(kVocab * cols, 1),
         positions = random_numbers<float>(9 * cols, 2);
    std::vector<std::int32_t> ids;
    for (std::int64_t r = 0; r < kRows; ++r)
      ids.push_back(static_cast<std::int32_t>(r * r % kVocab));
    std::vector<float> y(static_cast<std::size_t>(kRows * cols)), wanted = y;
    for (const auto& [ops, out] :
         {std::pair{&cpu_ops(), &y}, std::pair{&ref_ops<float>(), &wanted}}) {
      ops->embed_forward({ids.data(), kSeq, 3, matrix(table, kVocab, cols),
                          matrix(positions, 9, cols), matrix(*out, kRows, cols)});
    }
    EXPECT_EQ(y, wanted);
    auto dy = random_numbers<float>(kRows * cols, 3);
    auto dtable = table, dpositions = positions, wanted_dtable = table,
         wanted_dpositions = positions;
    cpu_ops().embed_backward({ids.data(), kSeq, matrix(dy, kRows, cols),
                              matrix(dtable, kVocab, cols), matrix(dpositions, 9, cols)});
    ref_ops<float>().embed_backward({ids.data(), kSeq, matrix(dy, kRows, cols),
                                     matrix(wanted_dtable, kVocab, cols),
                                     matrix(wanted_dpositions, 9, cols)});
    EXPECT_EQ(dtable, wanted_dtable);  // same additions in the same order
    EXPECT_EQ(dpositions, wanted_dpositions);
  }
}

TEST(Embed, NamesAnIdOutsideTheVocabulary) {
  std::vector<float> table(8), y(8);
  const std::int32_t ids[] = {0, 2};
  try {
    cpu_ops().embed_forward({ids, 2, 0, {table.data(), 2, 4}, {}, {y.data(), 2, 4}});
    FAIL() << "id 2 of 2 was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "embed_forward: token id 2 at place 1 is outside the vocabulary of 2");
  }
}

TEST(AdamWOp, CpuEqualsReference) {
  for (const std::int64_t n : {1, 15, 16, 1000}) {
    auto p = random_numbers<float>(n, 1), g = random_numbers<float>(n, 2);
    auto m = random_numbers<float>(n, 3), v = random_numbers<float>(n, 4);
    for (float& x : v) x = std::abs(x);
    auto wanted_p = p, wanted_m = m, wanted_v = v;
    const auto args = [&](std::vector<float>& pp, std::vector<float>& mm, std::vector<float>& vv) {
      return AdamW<float>{.parameter = pp.data(),
                          .gradient = g.data(),
                          .m = mm.data(),
                          .v = vv.data(),
                          .count = n,
                          .learning_rate = 1e-2,
                          .beta1 = 0.9,
                          .beta2 = 0.95,
                          .eps = 1e-8,
                          .weight_decay = 0.1,
                          .gradient_scale = 0.7,
                          .step = 3};
    };
    cpu_ops().adamw(args(p, m, v));
    ref_ops<float>().adamw(args(wanted_p, wanted_m, wanted_v));
    EXPECT_EQ("", compare("parameter", p, wanted_p, kElementwise));
    EXPECT_EQ("", compare("m", m, wanted_m, kElementwise));
    EXPECT_EQ("", compare("v", v, wanted_v, kElementwise));
  }
}

TEST(AdamWOp, FirstStepMovesByTheLearningRateWhateverTheGradient) {
  // With m = v = 0 and no decay, m_hat / sqrt(v_hat) is the sign of the gradient.
  std::vector<float> p = {1.0F, 1.0F}, g = {1e-3F, -1e3F}, m(2), v(2);
  cpu_ops().adamw({p.data(), g.data(), m.data(), v.data(), 2, 0.01, 0.9, 0.95, 1e-12, 0.0, 1.0, 1});
  EXPECT_NEAR(p[0], 0.99F, 1e-6);
  EXPECT_NEAR(p[1], 1.01F, 1e-6);
}

TEST(Reduce, CpuEqualsReference) {
  over_shapes([&](std::int64_t rows, std::int64_t cols) {
    auto x = random_numbers<float>(rows * cols, 1), sum = random_numbers<float>(cols, 2);
    auto wanted = sum;
    cpu_ops().column_sum({matrix(x, rows, cols), sum.data()});
    ref_ops<float>().column_sum({matrix(x, rows, cols), wanted.data()});
    EXPECT_EQ("", compare("sum", sum, wanted, kSummed, 1.0));
    double squares = 0, wanted_squares = 0;
    cpu_ops().sum_squares({x.data(), rows * cols, &squares});
    ref_ops<float>().sum_squares({x.data(), rows * cols, &wanted_squares});
    EXPECT_NEAR(squares / wanted_squares, 1.0, 1e-6);
    cpu_ops().zero({x.data(), rows * cols});
    for (const float value : x) ASSERT_EQ(value, 0.0F);
  });
}

TEST(Isa, OnlyWhatTheMachineHasCanBeForced) {
  EXPECT_FALSE(available_isas().empty());
  EXPECT_THROW(select_isa("abacus"), Error);
}

}  // namespace
}  // namespace headloom
