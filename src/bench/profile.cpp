#include "bench/profile.h"

#include <array>
#include <chrono>

namespace headloom {
namespace {

enum Slot {
  kGemmForward,
  kGemmInput,
  kGemmWeight,
  kRope,
  kAttendForward,
  kAttendBackward,
  kAttendProbe,
  kNormForward,
  kNormBackward,
  kActivationForward,
  kActivationBackward,
  kEmbedForward,
  kEmbedBackward,
  kCrossEntropy,
  kAdamW,
  kColumnSum,
  kSumSquares,
  kZero,
  kCopyHeads,
  kSlots
};

constexpr std::array<const char*, kSlots> kNames = {"gemm  x w",
                                                    "gemm  dy w^T",
                                                    "gemm  x^T dy",
                                                    "rope",
                                                    "attend forward",
                                                    "attend backward",
                                                    "attend probe",
                                                    "norm forward",
                                                    "norm backward",
                                                    "activation forward",
                                                    "activation backward",
                                                    "embed forward",
                                                    "embed backward",
                                                    "cross entropy",
                                                    "adamw",
                                                    "column sum",
                                                    "sum of squares",
                                                    "zero",
                                                    "copy heads"};

std::array<OpProfile, kSlots> g_profile;

constexpr double kFloat = sizeof(float);

template <class T>
double size(const Matrix<T>& m) {
  return static_cast<double>(m.rows) * static_cast<double>(m.cols);
}

struct Work {
  Slot slot;
  double flops;
  double bytes;
};

Work work_of(const Gemm<float>& g) {
  const Slot slot = g.transpose_a ? kGemmWeight : g.transpose_b ? kGemmInput : kGemmForward;
  return {slot, 2 * size(g.c) * static_cast<double>(g.inner()), 0};
}
Work work_of(const AttendForward<float>& a) {
  return {kAttendForward, attend_flops(a.q, a.k, 2), 0};
}
Work work_of(const AttendBackward<float>& a) {
  return {kAttendBackward, attend_flops(a.q, a.k, 5), 0};
}
Work work_of(const AttendProbe<float>& p) {
  return {kAttendProbe, attend_flops(p.q, p.k, 1), 0};
}
Work work_of(const NormForward<float>& n) {
  return {kNormForward, 0, kFloat * size(n.x) * (n.add ? 4 : 2)};
}
Work work_of(const NormBackward<float>& n) {
  return {kNormBackward, 0, kFloat * size(n.x) * (n.dresidual ? 4 : 3)};
}
Work work_of(const Rope<float>& r) {
  const auto numbers = static_cast<double>(r.x.batch * r.x.seq * r.x.heads * r.x.head_dim);
  return {kRope, 0, kFloat * numbers * 2};
}

Work work_of(const ActivationForward<float>& a) {
  return {kActivationForward, 0, kFloat * (size(a.x) + size(a.y))};
}
Work work_of(const ActivationBackward<float>& a) {
  return {kActivationBackward, 0, kFloat * (2 * size(a.x) + size(a.dy))};
}
Work work_of(const EmbedForward<float>& e) {
  return {kEmbedForward, 0, kFloat * size(e.y) * 3};
}
Work work_of(const EmbedBackward<float>& e) {
  return {kEmbedBackward, 0, kFloat * size(e.dy) * 5};
}
Work work_of(const CrossEntropy<float>& c) {
  return {kCrossEntropy, 0, kFloat * size(c.logits) * (c.write_gradient ? 2 : 1)};
}
Work work_of(const AdamW<float>& a) {
  return {kAdamW, 0, kFloat * static_cast<double>(a.count) * 7};
}
Work work_of(const ColumnSum<float>& s) {
  return {kColumnSum, 0, kFloat * size(s.x)};
}
Work work_of(const SumSquares<float>& s) {
  return {kSumSquares, 0, kFloat * static_cast<double>(s.count)};
}
Work work_of(const CopyHeads<float>& c) {
  const auto numbers = static_cast<double>(c.to.batch * c.to.seq * c.to.heads * c.to.head_dim);
  return {kCopyHeads, 0, kFloat * numbers * 2};
}
Work work_of(const Zero<float>& z) {
  return {kZero, 0, kFloat * static_cast<double>(z.count)};
}

/// The table whose ops are timed, and its device without recordings: every op must be run.
const Ops<float>* g_base = nullptr;
Device g_device;

/// Runs the base table's kernel of the same member and books time and work.
template <auto kMember, class Args>
void profiled(const Args& args) {
  const auto start = std::chrono::steady_clock::now();
  (g_base->*kMember).kernel(args);
  g_base->device->finish();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const Work work = work_of(args);
  OpProfile& profile = g_profile[work.slot];
  profile.calls += 1;
  profile.seconds += took.count();
  profile.flops += work.flops;
  profile.bytes += work.bytes;
}

using Table = Ops<float>;

}  // namespace

double attend_flops(const Heads<const float>& q, const Heads<const float>& k, int products) {
  const double rows = static_cast<double>(q.seq), keys = static_cast<double>(k.seq);
  const double pairs = rows * (keys - rows) + rows * (rows + 1) / 2;
  const double heads = static_cast<double>(q.batch * q.heads);
  return 2.0 * products * static_cast<double>(q.head_dim) * pairs * heads;
}

const Ops<float>& profiled_ops(const Ops<float>& base) {
  g_base = &base;
  g_device = *base.device;
  g_device.record = nullptr;
  static const Table table{
      .name = "profiled",
      .device = &g_device,
      .gemm = {profiled<&Table::gemm>},
      .rope = {profiled<&Table::rope>},
      .attend_forward = {profiled<&Table::attend_forward>},
      .attend_backward = {profiled<&Table::attend_backward>},
      .attend_probe = {profiled<&Table::attend_probe>},
      .norm_forward = {profiled<&Table::norm_forward>},
      .norm_backward = {profiled<&Table::norm_backward>},
      .activation_forward = {profiled<&Table::activation_forward>},
      .activation_backward = {profiled<&Table::activation_backward>},
      .embed_forward = {profiled<&Table::embed_forward>},
      .embed_backward = {profiled<&Table::embed_backward>},
      .cross_entropy = {profiled<&Table::cross_entropy>},
      .adamw = {profiled<&Table::adamw>},
      .column_sum = {profiled<&Table::column_sum>},
      .sum_squares = {profiled<&Table::sum_squares>},
      .zero = {profiled<&Table::zero>},
      .copy_heads = {profiled<&Table::copy_heads>},
  };
  return table;
}

std::vector<OpProfile> read_profile() {
  std::vector<OpProfile> list;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    if (g_profile[slot].calls == 0) continue;
    list.push_back(g_profile[slot]);
    list.back().name = kNames[slot];
  }
  return list;
}

void reset_profile() {
  g_profile = {};
}

}  // namespace headloom
