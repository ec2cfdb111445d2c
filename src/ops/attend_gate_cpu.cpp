#include <cmath>
#include <vector>

#include "base/threads.h"
#include "ops/cpu.h"

namespace headloom {
namespace {

/// What forward saved is gate * P v. Above this size of the gate P v comes back by a division;
/// below it is made again.
constexpr float kSmallGate = 1e-3F;

double sum_of_products(const Heads<const float>& x, const Heads<const float>& y, std::int64_t b,
                       std::int64_t h) {
  double sum = 0;
  for (std::int64_t t = 0; t < x.seq; ++t) {
    const float *left = x.at(b, t, h), *right = y.at(b, t, h);
    for (std::int64_t d = 0; d < x.head_dim; ++d) sum += double{left[d]} * double{right[d]};
  }
  return sum;
}

}  // namespace

void gate_gradient_cpu(const AttendBackward<float>& a) {
  bool small = false;
  for (std::int64_t h = 0; a.gate != nullptr && h < a.q.heads; ++h) {
    small = small || std::abs(a.gate[h]) < kSmallGate;
  }
  std::vector<float> made;
  Heads<const float> ungated;
  if (small) {  // seldom, and only to measure: memory of its own is cheap enough
    const std::int64_t width = a.q.heads * a.q.head_dim;
    made.resize(static_cast<std::size_t>(a.q.batch * a.q.seq * width));
    const Heads<float> out(made.data(), a.q.batch, a.q.seq, a.q.heads, a.q.head_dim,
                           a.q.seq * width, width);
    attend_forward_cpu({.q = a.q, .k = a.k, .v = a.v, .out = out});
    ungated = out;
  }
  parallel_tasks(a.q.batch * a.q.heads, [&](std::int64_t task) {
    const std::int64_t b = task / a.q.heads, h = task % a.q.heads;
    const float gate = a.gate != nullptr ? a.gate[h] : 1.0F;
    const bool divide = std::abs(gate) >= kSmallGate;
    const double sum = sum_of_products(a.dout, divide ? a.out : ungated, b, h);
    a.dgate[task] = static_cast<float>(divide ? sum / gate : sum);
  });
}

}  // namespace headloom
