// Attention: the CPU kernels against the scalar reference over ragged shapes, and the properties
// that every implementation must have.
#include <gtest/gtest.h>

#include <cmath>

#include "base/threads.h"
#include "ops/backend.h"
#include "selftest/numbers.h"

namespace headloom {
namespace {

using test::compare;
using test::random_numbers;

struct Shape {
  std::int64_t batch, queries, keys, heads, kv_heads, head_dim;
};

std::string name(const testing::TestParamInfo<Shape>& info) {
  const Shape& s = info.param;
  return fmt::format("B{}Tq{}Tk{}NH{}KVH{}HS{}", s.batch, s.queries, s.keys, s.heads, s.kv_heads,
                     s.head_dim);
}

/// Inputs and outputs of one attention, q, k and v side by side in fused rows as the model has
/// them.
template <class T>
struct Problem {
  Shape s;
  std::vector<T> q, kv, out, lse, dout, dq, dkv;
  std::vector<T> gate, dgate;  ///< empty: no gates

  explicit Problem(const Shape& shape, double scale = 1.0) : s(shape) {
    const std::int64_t width = s.heads * s.head_dim, kv_width = 2 * s.kv_heads * s.head_dim;
    q = random_numbers<T>(s.batch * s.queries * width, 1, scale);
    kv = random_numbers<T>(s.batch * s.keys * kv_width, 2, scale);
    dout = random_numbers<T>(s.batch * s.queries * width, 3);
    out.resize(q.size());
    dq.resize(q.size());
    dkv.resize(kv.size());
    lse.resize(static_cast<std::size_t>(s.batch * s.heads * s.queries));
  }
  Heads<T> rows(std::vector<T>& x) const {
    const std::int64_t width = s.heads * s.head_dim;
    return {x.data(), s.batch, s.queries, s.heads, s.head_dim, s.queries * width, width};
  }
  Heads<T> half(std::vector<T>& x, int part) const {
    const std::int64_t width = s.kv_heads * s.head_dim;
    return {x.data() + part * width, s.batch,  s.keys, s.kv_heads, s.head_dim,
            s.keys * 2 * width,      2 * width};
  }
  void forward(const Ops<T>& ops) {
    ops.attend_forward({rows(q), half(kv, 0), half(kv, 1), rows(out), lse.data(), gates()});
  }
  const T* gates() const { return gate.empty() ? nullptr : gate.data(); }
  /// Gates of every kind: none at all, of either sign, closed, all but closed.
  void set_gates() {
    constexpr double kGates[] = {0.7, 0.0, -1.3, 1e-5, 1.0};
    for (std::int64_t h = 0; h < s.heads; ++h) gate.push_back(T(kGates[h % 5]));
    dgate.resize(static_cast<std::size_t>(s.batch * s.heads));
  }
  void backward(const Ops<T>& ops) {
    ops.attend_backward({rows(q), half(kv, 0), half(kv, 1), rows(out), rows(dout), lse.data(),
                         rows(dq), half(dkv, 0), half(dkv, 1), gates(),
                         dgate.empty() ? nullptr : dgate.data()});
  }
};

class Attend : public testing::TestWithParam<Shape> {};

// Both sum in fp32 over at most a few hundred terms: a few times sqrt(terms) ulps (6e-8) of the
// largest value; exp2's polynomial adds 2e-7 of a probability.
constexpr double kForwardTolerance = 3e-6;
// Gradients go through two more products of the same length.
constexpr double kBackwardTolerance = 6e-6;

TEST_P(Attend, CpuEqualsReference) {
  Problem<float> fast(GetParam()), wanted(GetParam());
  fast.forward(cpu_ops());
  wanted.forward(ref_ops<float>());
  EXPECT_EQ("", compare("out", fast.out, wanted.out, kForwardTolerance));
  EXPECT_EQ("", compare("lse", fast.lse, wanted.lse, kForwardTolerance));
  if (GetParam().queries != GetParam().keys) return;
  fast.out = wanted.out;
  fast.lse = wanted.lse;
  fast.backward(cpu_ops());
  wanted.backward(ref_ops<float>());
  // With one key the softmax is constant and dq exactly 0; what is left is rounding, so the error
  // is measured against a gradient of ordinary size.
  EXPECT_EQ("", compare("dq", fast.dq, wanted.dq, kBackwardTolerance, 0.5));
  EXPECT_EQ("", compare("dkv", fast.dkv, wanted.dkv, kBackwardTolerance, 0.5));
}

std::vector<Shape> ragged_shapes() {
  std::vector<Shape> shapes;
  for (const std::int64_t t : {1, 5, 7, 63, 64, 65, 127, 129, 200}) {
    for (const std::int64_t dim : {1, 8, 24, 32, 63, 64, 72})
      shapes.push_back({2, t, t, 2, 2, dim});
  }
  shapes.push_back({1, 70, 70, 3, 3, 128});
  shapes.push_back({2, 66, 66, 4, 2, 32});  // grouped and multi-query
  shapes.push_back({1, 33, 33, 6, 1, 20});
  shapes.push_back({2, 1, 77, 4, 4, 32});  // decoding
  shapes.push_back({1, 3, 64, 4, 2, 33});
  shapes.push_back({1, 40, 100, 2, 2, 16});   // continuing a prompt
  shapes.push_back({1, 300, 300, 1, 1, 32});  // one head: its blocks are shared out
  shapes.push_back({1, 200, 200, 4, 1, 40});
  shapes.push_back({1, 130, 513, 1, 1, 24});
  for (const std::int64_t t : {191, 192, 193, 319, 320, 321}) shapes.push_back({1, t, t, 3, 1, 16});
  return shapes;
}

/// Every length up to two blocks and a little.
std::vector<Shape> all_lengths() {
  std::vector<Shape> shapes;
  for (std::int64_t t = 1; t <= 130; ++t) shapes.push_back({1, t, t, 2, 1, 12});
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Lengths, Attend, testing::ValuesIn(all_lengths()), name);
INSTANTIATE_TEST_SUITE_P(Ragged, Attend, testing::ValuesIn(ragged_shapes()), name);

TEST(AttendGradient, ReferenceAgreesWithTheComplexStep) {
  const Shape shape{2, 5, 5, 4, 2, 3};
  using C = std::complex<double>;
  Problem<C> p(shape);
  p.forward(ref_ops<C>());
  p.backward(ref_ops<C>());
  const auto loss_slope = [&](std::vector<C>& x, std::size_t i) {
    const C kept = x[i];
    x[i] += C(0, test::kComplexStep);
    p.forward(ref_ops<C>());
    x[i] = kept;
    C loss = 0;
    for (std::size_t j = 0; j < p.out.size(); ++j) loss += p.out[j] * p.dout[j];
    return loss.imag() / test::kComplexStep;
  };
  for (std::size_t i = 0; i < p.q.size(); ++i) {
    EXPECT_NEAR(loss_slope(p.q, i), p.dq[i].real(), 1e-12) << "dq " << i;
  }
  for (std::size_t i = 0; i < p.kv.size(); ++i) {
    EXPECT_NEAR(loss_slope(p.kv, i), p.dkv[i].real(), 1e-12) << "dkv " << i;
  }
}

TEST(AttendGates, CpuEqualsReferenceForAnyGate) {
  for (const Shape& shape : {Shape{2, 5, 5, 5, 5, 8}, Shape{1, 130, 130, 6, 3, 33},
                             Shape{2, 1, 70, 5, 1, 16}, Shape{1, 300, 300, 2, 2, 32}}) {
    SCOPED_TRACE(name({shape, 0}));
    Problem<float> fast(shape), wanted(shape);
    fast.set_gates();
    wanted.set_gates();
    fast.forward(cpu_ops());
    wanted.forward(ref_ops<float>());
    EXPECT_EQ("", compare("out", fast.out, wanted.out, kForwardTolerance));
    if (shape.queries != shape.keys) continue;
    fast.backward(cpu_ops());
    wanted.backward(ref_ops<float>());
    EXPECT_EQ("", compare("dq", fast.dq, wanted.dq, kBackwardTolerance, 0.5));
    EXPECT_EQ("", compare("dkv", fast.dkv, wanted.dkv, kBackwardTolerance, 0.5));
    // A sum over all rows of a head; the gate 1e-5 is below what a division could give back.
    EXPECT_EQ("", compare("dgate", fast.dgate, wanted.dgate, kBackwardTolerance, 0.5));
  }
}

TEST(AttendGates, ReferenceAgreesWithTheComplexStep) {
  using C = std::complex<double>;
  Problem<C> p({2, 5, 5, 5, 5, 3});
  p.set_gates();
  p.forward(ref_ops<C>());
  p.backward(ref_ops<C>());
  const std::vector<C> dgate = p.dgate, dkv = p.dkv;
  const auto slope = [&](C& x) {
    const C kept = x;
    x += C(0, test::kComplexStep);
    p.forward(ref_ops<C>());
    x = kept;
    C loss = 0;
    for (std::size_t j = 0; j < p.out.size(); ++j) loss += p.out[j] * p.dout[j];
    return loss.imag() / test::kComplexStep;
  };
  for (std::size_t h = 0; h < 5; ++h) {
    EXPECT_NEAR(slope(p.gate[h]), (dgate[h] + dgate[5 + h]).real(), 1e-12) << "gate " << h;
  }
  for (std::size_t i = 0; i < dkv.size(); ++i) {
    EXPECT_NEAR(slope(p.kv[i]), dkv[i].real(), 1e-12) << "dkv " << i;
  }
}

TEST(AttendProperties, ALaterPositionChangesNothingBefore) {
  const Shape shape{1, 70, 70, 2, 2, 24};
  Problem<float> before(shape), after(shape);
  before.forward(cpu_ops());
  const std::int64_t changed = 41, width = shape.heads * shape.head_dim;
  for (std::int64_t i = 2 * changed * width; i < 2 * 70 * width; ++i) after.kv[i] = 1e3F;
  after.forward(cpu_ops());
  for (std::int64_t i = 0; i < changed * width; ++i) ASSERT_EQ(before.out[i], after.out[i]);
  EXPECT_NE(before.out[changed * width], after.out[changed * width]);
}

TEST(AttendProperties, SequencesDoNotMeet) {
  const Shape shape{2, 50, 50, 2, 2, 16};
  Problem<float> before(shape), after(shape);
  before.forward(cpu_ops());
  for (std::size_t i = after.kv.size() / 2; i < after.kv.size(); ++i) after.kv[i] *= 2;
  after.forward(cpu_ops());
  for (std::size_t i = 0; i < before.out.size() / 2; ++i) ASSERT_EQ(before.out[i], after.out[i]);
}

/// The same numbers with the positions of a head together, [B,heads,T,HS].
struct ByHead {
  std::vector<float> data;
  Heads<float> view;

  explicit ByHead(const Heads<float>& from)
      : data(static_cast<std::size_t>(from.batch * from.seq * from.heads * from.head_dim)) {
    const std::int64_t head = from.seq * from.head_dim;
    view = {data.data(),   from.batch,        from.seq,      from.heads,
            from.head_dim, from.heads * head, from.head_dim, head};
    copy(from, view);
  }
  static void copy(const Heads<float>& from, const Heads<float>& to) {
    for (std::int64_t b = 0; b < from.batch; ++b) {
      for (std::int64_t t = 0; t < from.seq; ++t) {
        for (std::int64_t h = 0; h < from.heads; ++h) {
          std::copy_n(from.at(b, t, h), from.head_dim, to.at(b, t, h));
        }
      }
    }
  }
};

TEST(AttendProperties, StridesDoNotMatter) {
  for (const Shape& shape : {Shape{2, 70, 70, 4, 2, 24}, Shape{1, 2, 70, 4, 4, 40}}) {
    Problem<float> p(shape);
    p.forward(cpu_ops());
    ByHead q(p.rows(p.q)), k(p.half(p.kv, 0)), v(p.half(p.kv, 1)), out(p.rows(p.out));
    std::fill(out.data.begin(), out.data.end(), 0.0F);
    std::vector<float> lse(p.lse.size());
    cpu_ops().attend_forward({q.view, k.view, v.view, out.view, lse.data()});
    EXPECT_EQ(lse, p.lse);
    EXPECT_EQ(out.data, ByHead(p.rows(p.out)).data);
    if (shape.queries != shape.keys) continue;
    p.backward(cpu_ops());
    const ByHead dout(p.rows(p.dout));
    ByHead dq(q.view), dk(k.view), dv(v.view);
    cpu_ops().attend_backward(
        {q.view, k.view, v.view, out.view, dout.view, lse.data(), dq.view, dk.view, dv.view});
    EXPECT_EQ(dq.data, ByHead(p.rows(p.dq)).data);
    EXPECT_EQ(dk.data, ByHead(p.half(p.dkv, 0)).data);
    EXPECT_EQ(dv.data, ByHead(p.half(p.dkv, 1)).data);
  }
}

TEST(AttendProperties, RepeatsBitwise) {
  // Four threads, so that the blocks of few heads are shared out whatever the machine has.
  const int before = thread_count();
  for (const int threads : {1, 4}) {
    set_thread_count(threads);
    for (const Shape& shape : {Shape{2, 100, 100, 3, 3, 40}, Shape{1, 300, 300, 1, 1, 32},
                               Shape{1, 200, 200, 4, 1, 40}}) {
      Problem<float> one(shape), two(shape), wanted(shape);
      for (Problem<float>* p : {&one, &two}) {
        p->forward(cpu_ops());
        p->backward(cpu_ops());
      }
      EXPECT_EQ(one.out, two.out);
      EXPECT_EQ(one.dq, two.dq);
      EXPECT_EQ(one.dkv, two.dkv);
      wanted.forward(ref_ops<float>());
      wanted.backward(ref_ops<float>());
      EXPECT_EQ("", compare("dq", one.dq, wanted.dq, kBackwardTolerance, 0.5));
      EXPECT_EQ("", compare("dkv", one.dkv, wanted.dkv, kBackwardTolerance, 0.5));
    }
  }
  set_thread_count(before);
}

TEST(AttendProperties, HugeScoresStayFinite) {
  // Scores near 1e4: fp32 holds them to 1e-3, so only the shape of the result can be asked for.
  const Shape shape{1, 66, 66, 1, 1, 64};
  Problem<float> p(shape, 100.0);
  p.forward(cpu_ops());
  p.backward(cpu_ops());
  for (const float x : p.out) ASSERT_TRUE(std::isfinite(x));
  for (const float x : p.dq) ASSERT_TRUE(std::isfinite(x));
}

TEST(AttendProperties, NanInGivesNanOut) {
  const Shape shape{1, 70, 70, 1, 1, 8};
  Problem<float> p(shape);
  p.kv[30 * 16] = NAN;  // a key: every later query sees it, no earlier one does
  p.forward(cpu_ops());
  for (std::int64_t t = 0; t < 70; ++t) {
    ASSERT_EQ(std::isnan(p.out[t * 8]), t >= 30) << "position " << t;
  }
}

TEST(AttendErrors, NameTensorAndShapes) {
  Problem<float> p(Shape{1, 4, 4, 2, 2, 8});
  auto k = p.half(p.kv, 0);
  k.head_dim = 7;
  try {
    cpu_ops().attend_forward({p.rows(p.q), k, p.half(p.kv, 1), p.rows(p.out), nullptr});
    FAIL() << "a wrong head_dim was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("attend_forward: k has shape [1, 4, 2, 7]"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace headloom
