#include "bench/attention_bench.h"

#include <memory>

#include "attention/concat.h"
#include "attention/split.h"
#include "base/error.h"
#include "base/rng.h"
#include "bench/materialised.h"
#include "bench/profile.h"
#include "tensor/arena.h"

namespace headloom {
namespace {

void fill_random(const Ops<float>& ops, Matrix<float> m, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> numbers(static_cast<std::size_t>(m.rows * m.cols));
  for (float& x : numbers) x = static_cast<float>(rng.normal());
  ops.device->upload(m.data, numbers.data(), numbers.size() * sizeof(float));
}

/// Memory of one attention, forward and backward, in fused rows and with the heads apart.
class Problem {
 public:
  Problem(const AttentionShape& shape, const Ops<float>& ops) : ops_(ops), shape_(shape) {
    const HeadLayout& layout = shape.heads;
    const std::int64_t rows = shape.batch * shape.seq;
    arena_ = arrange(
        [&](Arena& arena) {
          const auto matrix = [&](std::int64_t cols) {
            return Matrix<float>(arena.take<float>(rows * cols), rows, cols);
          };
          qkv_ = matrix(layout.fused_width());
          dqkv_ = matrix(layout.fused_width());
          out_ = matrix(layout.query_width());
          dout_ = matrix(layout.query_width());
          if (ops.device->is_host) {
            scores_ = {arena.take<float>(shape.seq * shape.seq), shape.seq, shape.seq};
          }
          lse_ = arena.take<float>(rows * layout.heads);
          for (std::size_t i = 0; i < kApart; ++i) {
            const std::int64_t heads = is_key(i) ? layout.kv_heads : layout.heads;
            const std::int64_t head = shape.seq * layout.head_dim;
            apart_[i] = {arena.take<float>(rows * heads * layout.head_dim),
                         shape.batch,
                         shape.seq,
                         heads,
                         layout.head_dim,
                         heads * head,
                         layout.head_dim,
                         head};
          }
        },
        *ops.device);
    fill_random(ops_, qkv_, 1);
    fill_random(ops_, dout_, 2);
    forward();
  }

  void forward() {
    const SplitHeads<float> s = split();
    ops_.attend_forward({s.q, s.k, s.v, out(), lse_});
  }
  void backward() {
    const SplitHeads<float> s = split(), ds = split_heads(dqkv_, shape_.batch, shape_.heads);
    ops_.attend_backward({s.q, s.k, s.v, out(), heads_of(dout_), lse_, ds.q, ds.k, ds.v});
  }
  /// By the kernels of the seed, a block to a head.
  void forward_simply() {
    const SplitHeads<float> s = split();
    ops_.attend_forward_simple({s.q, s.k, s.v, out(), lse_});
  }
  void backward_simply() {
    const SplitHeads<float> s = split(), ds = split_heads(dqkv_, shape_.batch, shape_.heads);
    ops_.attend_backward_simple({s.q, s.k, s.v, out(), heads_of(dout_), lse_, ds.q, ds.k, ds.v});
  }
  void forward_copied() {
    copy_inputs();
    ops_.attend_forward({apart_[kQ], apart_[kK], apart_[kV], apart_[kOut], lse_});
    ops_.copy_heads({apart_[kOut], out()});
  }
  void backward_copied() {
    copy_inputs();
    ops_.copy_heads({out(), apart_[kOut]});
    ops_.copy_heads({heads_of(dout_), apart_[kDout]});
    ops_.attend_backward({apart_[kQ], apart_[kK], apart_[kV], apart_[kOut], apart_[kDout], lse_,
                          apart_[kDq], apart_[kDk], apart_[kDv]});
    const SplitHeads<float> ds = split_heads(dqkv_, shape_.batch, shape_.heads);
    ops_.copy_heads({apart_[kDq], ds.q});
    ops_.copy_heads({apart_[kDk], ds.k});
    ops_.copy_heads({apart_[kDv], ds.v});
  }
  void forward_materialised() {
    const SplitHeads<float> s = split();
    attend_materialised(s.q, s.k, s.v, out(), scores_);
  }
  double flops(int products) const {
    const SplitHeads<float> s = split();
    return attend_flops(s.q, s.k, products);
  }

 private:
  enum { kQ, kK, kV, kOut, kDout, kDq, kDk, kDv, kApart };
  static bool is_key(std::size_t i) { return i == kK || i == kV || i == kDk || i == kDv; }

  SplitHeads<float> split() const { return split_heads(qkv_, shape_.batch, shape_.heads); }
  Heads<float> heads_of(Matrix<float> rows) const {
    return concat_heads(rows, shape_.batch, shape_.heads.heads, shape_.heads.head_dim);
  }
  Heads<float> out() const { return heads_of(out_); }
  void copy_inputs() {
    const SplitHeads<float> s = split();
    ops_.copy_heads({s.q, apart_[kQ]});
    ops_.copy_heads({s.k, apart_[kK]});
    ops_.copy_heads({s.v, apart_[kV]});
  }

  const Ops<float>& ops_;
  AttentionShape shape_;
  Matrix<float> qkv_, dqkv_, out_, dout_, scores_;
  float* lse_ = nullptr;
  Heads<float> apart_[kApart];
  Arena arena_;
};

std::string shape_text(const AttentionShape& s) {
  return fmt::format("B {} T {} NH {} KVH {} HS {}", s.batch, s.seq, s.heads.heads,
                     s.heads.kv_heads, s.heads.head_dim);
}

}  // namespace

std::vector<BenchRow> bench_attention(const AttentionShape& shape, const Ops<float>& ops) {
  Problem p(shape, ops);
  const std::string text = shape_text(shape);
  const double forward = p.flops(2), backward = p.flops(5);
  std::vector<BenchCase> cases;
  if (ops.device->is_host) {
    cases.push_back(
        {"forward, scores materialised", text, forward, [&] { p.forward_materialised(); }});
  }
  // At long contexts a block to a head takes seconds and says nothing new.
  const bool has_simple = ops.attend_forward_simple.kernel != nullptr && shape.seq <= 1024;
  if (has_simple) {
    cases.push_back({"forward, one block a head", text, forward, [&] { p.forward_simply(); }});
  }
  cases.push_back({"forward, heads copied apart", text, forward, [&] { p.forward_copied(); }});
  const bool tiled = ops.device->is_host || ops.precision == Precision::kBf16;
  const char* const kernel = tiled ? "tiled, in place" : "row by row, in place";
  cases.push_back({fmt::format("forward, {}", kernel), text, forward, [&] { p.forward(); }});
  if (has_simple) {
    cases.push_back({"backward, one block a head", text, backward, [&] { p.backward_simply(); }});
  }
  cases.push_back({"backward, heads copied apart", text, backward, [&] { p.backward_copied(); }});
  cases.push_back({fmt::format("backward, {}", kernel), text, backward, [&] { p.backward(); }});
  return run_interleaved(cases, 7, 0.1, meter_of(ops));
}

std::vector<BenchRow> bench_heads(std::int64_t batch, std::int64_t seq,
                                  const std::vector<HeadLayout>& layouts, const Ops<float>& ops) {
  std::vector<std::unique_ptr<Problem>> problems;
  std::vector<BenchCase> cases;
  for (const HeadLayout& layout : layouts) {
    const AttentionShape shape{batch, seq, layout};
    problems.push_back(std::make_unique<Problem>(shape, ops));
    Problem* p = problems.back().get();
    cases.push_back({"forward", shape_text(shape), p->flops(2), [p] { p->forward(); }});
    cases.push_back({"backward", shape_text(shape), p->flops(5), [p] { p->backward(); }});
  }
  return run_interleaved(cases, 7, 0.1, meter_of(ops));
}

std::vector<BenchRow> bench_projection(std::int64_t rows, std::int64_t width, std::int64_t heads,
                                       const Ops<float>& ops) {
  Matrix<float> x, w, y;
  const Arena arena = arrange(
      [&](Arena& a) {
        x = {a.take<float>(rows * width), rows, width};
        w = {a.take<float>(width * 3 * width), width, 3 * width};
        y = {a.take<float>(rows * 3 * width), rows, 3 * width};
      },
      *ops.device);
  fill_random(ops, x, 1);
  fill_random(ops, w, 2);
  const auto in_parts = [&](std::int64_t parts) {
    return [=, &ops] {
      const std::int64_t cols = 3 * width / parts;
      for (std::int64_t i = 0; i < parts; ++i) {
        ops.gemm({.a = x, .b = w.col_range(i * cols, cols), .c = y.col_range(i * cols, cols)});
      }
    };
  };
  const double flops = 6.0 * static_cast<double>(rows * width * width);
  const std::string text = fmt::format("R {} C {} NH {}", rows, width, heads);
  return run_interleaved(
      {{fmt::format("{} multiplications", 3 * heads), text, flops, in_parts(3 * heads)},
       {"3 multiplications", text, flops, in_parts(3)},
       {"1 multiplication", text, flops, in_parts(1)}},
      7, 0.1, meter_of(ops));
}

}  // namespace headloom
