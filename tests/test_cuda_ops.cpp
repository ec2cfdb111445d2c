// The small CUDA kernels under the emulation, against the definitions in double: ragged shapes, 20
// orders of lanes and blocks, errors in units of the last place of the magnitude that is summed
// into each element. Tensors lie in the device's memory, where every access is watched.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda/emulated.h"
#include "selftest/device_array.h"
#include "selftest/numbers.h"
#include "simt/simt.h"
#include "support/orders.h"

namespace headloom {
namespace {

using test::DeviceArray;
using test::random_numbers;

constexpr double kUlp = 0x1p-23;
/// What sums of some hundred terms, and the device's exp, log, tanh, may be off by.
constexpr double kBar = 20;

const std::uint64_t kOrders = test::lane_orders();

/// A result by the definition, and what went into each of its numbers.
struct Wanted {
  std::vector<double> value, size;
  void add(double v, double s) {
    value.push_back(v);
    size.push_back(s);
  }
};

double worst_ulps(const std::vector<float>& given, const Wanted& wanted) {
  double worst = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double error = std::abs(double{given[i]} - wanted.value[i]);
    const double ulps = error / (kUlp * (wanted.size[i] + 1e-30));
    worst = std::isnan(ulps) ? INFINITY : std::max(worst, ulps);
  }
  return worst;
}

/// Runs `body(ops, device)`, which returns what each result is and should be, in every order.
struct Compared {
  std::string name;
  std::vector<float> given;
  Wanted wanted;
};
template <class Body>
void in_every_order(Body&& body) {
  std::vector<Compared> first;
  for (std::uint64_t seed = 0; seed < kOrders; ++seed) {
    simt::emu_options().seed = seed;
    const Ops<float>& ops = emulated_ops();
    const std::vector<Compared> results = body(ops, *ops.device);
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_LT(worst_ulps(results[i].given, results[i].wanted), kBar)
          << results[i].name << ", order " << seed;
      if (seed == 0) continue;
      EXPECT_EQ(results[i].given, first[i].given) << "order " << seed;
    }
    if (seed == 0) first = results;
  }
  simt::emu_options() = simt::EmuOptions();
}

struct Shape {
  std::int64_t rows, cols;
};
const std::vector<Shape> kShapes = {{1, 1}, {3, 31}, {5, 128}, {70, 129}, {130, 200}};

Matrix<float> matrix(const DeviceArray& x, const Shape& s) {
  return {x.data(), s.rows, s.cols};
}

/// Layernorm and rmsnorm of a row by the definition, and what a backward step makes of it.
struct NormRow {
  std::vector<double> h, h_size;  ///< normalised, and what is subtracted from what in it
  double mean = 0, rstd = 0;

  NormRow(const float* x, std::int64_t cols, bool centred, double eps) {
    const double n = static_cast<double>(cols);
    double sum = 0, magnitude = 0, squares = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum += x[c], magnitude += std::abs(x[c]);
    mean = centred ? sum / n : 0;
    for (std::int64_t c = 0; c < cols; ++c) squares += (x[c] - mean) * (x[c] - mean);
    rstd = 1 / std::sqrt(squares / n + eps);
    for (std::int64_t c = 0; c < cols; ++c) {
      h.push_back((x[c] - mean) * rstd);
      h_size.push_back((std::abs(x[c]) + (centred ? magnitude / n : 0)) * rstd);
    }
  }
};

class CudaNorm : public testing::TestWithParam<NormKind> {};

/// A norm's tensors, and its results by the definition.
struct NormCase {
  Shape shape;
  std::vector<float> x, add, gain, bias, dy, residual;
  Wanted y, dx, dgain, dbias;

  NormCase(const Shape& s, bool centred)
      : shape(s),
        x(random_numbers<float>(s.rows * s.cols, 1)),
        add(random_numbers<float>(s.rows * s.cols, 2)),
        gain(random_numbers<float>(s.cols, 3)),
        bias(random_numbers<float>(s.cols, 4)),
        dy(random_numbers<float>(s.rows * s.cols, 5)),
        residual(random_numbers<float>(s.rows * s.cols, 6)) {
    for (const float g : gain) dgain.add(g, std::abs(g));
    for (const float b : bias) dbias.add(b, std::abs(b));
    for (std::int64_t r = 0; r < s.rows; ++r)
      add_row(static_cast<std::size_t>(r * s.cols), centred);
  }

 private:
  void add_row(std::size_t row, bool centred) {
    const double cols = static_cast<double>(shape.cols);
    std::vector<float> sum;
    for (std::size_t c = 0; c < gain.size(); ++c) sum.push_back(x[row + c] + add[row + c]);
    const NormRow n(sum.data(), shape.cols, centred, 1e-5);
    double g_sum = 0, gh_sum = 0, g_size = 0, gh_size = 0;
    for (std::size_t c = 0; c < gain.size(); ++c) {
      const double d = dy[row + c], g = d * gain[c];
      y.add(n.h[c] * gain[c] + bias[c], n.h_size[c] * std::abs(gain[c]) + std::abs(bias[c]));
      g_sum += g, g_size += std::abs(g);
      gh_sum += g * n.h[c], gh_size += std::abs(g) * n.h_size[c];
      dgain.value[c] += d * n.h[c], dgain.size[c] += std::abs(d) * n.h_size[c];
      dbias.value[c] += d, dbias.size[c] += std::abs(d);
    }
    for (std::size_t c = 0; c < gain.size(); ++c) {
      const double direct = residual[row + c], g = double{dy[row + c]} * gain[c];
      const double mean = centred ? g_sum / cols : 0;
      dx.add(
          direct + n.rstd * (g - n.h[c] * gh_sum / cols - mean),
          std::abs(direct) + n.rstd * (std::abs(g) + n.h_size[c] * gh_size / cols + g_size / cols));
    }
  }
};

std::vector<Compared> run_norm(const Ops<float>& ops, NormKind kind, const NormCase& n) {
  const Device& device = *ops.device;
  const Shape& s = n.shape;
  const DeviceArray x(device, n.x), add(device, n.add), sums(device, s.rows * s.cols),
      y(device, s.rows * s.cols), gain(device, n.gain), bias(device, n.bias), dy(device, n.dy),
      stream(device, n.residual), mean(device, s.rows), rstd(device, s.rows), dgain(device, n.gain),
      dbias(device, n.bias);
  ops.norm_forward({.kind = kind,
                    .x = matrix(x, s),
                    .add = matrix(add, s),
                    .sum = matrix(sums, s),
                    .gain = gain.data(),
                    .bias = bias.data(),
                    .y = matrix(y, s),
                    .mean = mean.data(),
                    .rstd = rstd.data()});
  ops.norm_backward({.kind = kind,
                     .x = matrix(sums, s),
                     .gain = gain.data(),
                     .mean = mean.data(),
                     .rstd = rstd.data(),
                     .dy = matrix(dy, s),
                     .dresidual = matrix(stream, s),
                     .dx = matrix(stream, s),
                     .dgain = dgain.data(),
                     .dbias = dbias.data()});
  return {{"y", y.read(), n.y},
          {"dx", stream.read(), n.dx},
          {"dgain", dgain.read(), n.dgain},
          {"dbias", dbias.read(), n.dbias}};
}

TEST_P(CudaNorm, EqualsTheDefinition) {
  const bool centred = GetParam() == NormKind::kLayerNorm;
  for (const Shape& s : kShapes) {
    if (s.cols == 1 && centred) continue;  // nothing but rounding is left of one column
    const NormCase n(s, centred);
    in_every_order(
        [&](const Ops<float>& ops, const Device&) { return run_norm(ops, GetParam(), n); });
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CudaNorm, testing::Values(NormKind::kLayerNorm, NormKind::kRmsNorm),
                         [](const testing::TestParamInfo<NormKind>& info) {
                           return std::string(enum_name(info.param));
                         });

struct Curve {
  double value, slope;
};
Curve curve(Activation kind, double x) {
  if (kind == Activation::kRelu) return {std::max(x, 0.0), x > 0 ? 1.0 : 0.0};
  if (kind == Activation::kRelu2) return {x > 0 ? x * x : 0.0, x > 0 ? 2 * x : 0.0};
  if (kind == Activation::kSwiGlu) {
    const double s = 1 / (1 + std::exp(-x));
    return {x * s, s + x * s * (1 - s)};
  }
  const double k = std::sqrt(2 / M_PI), t = std::tanh(k * (x + 0.044715 * x * x * x));
  return {0.5 * x * (1 + t),
          0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x)};
}

class CudaActivation : public testing::TestWithParam<Activation> {};

TEST_P(CudaActivation, EqualsTheDefinition) {
  const bool gated = is_gated(GetParam());
  for (const Shape& s : kShapes) {
    const Shape wide{s.rows, gated ? 2 * s.cols : s.cols};
    const std::vector<float> x = random_numbers<float>(wide.rows * wide.cols, 1, 2);
    const std::vector<float> dy = random_numbers<float>(s.rows * s.cols, 2);
    Wanted y, dx;
    dx.value.resize(x.size()), dx.size.resize(x.size());
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t c = 0; c < s.cols; ++c) {
        const auto at = static_cast<std::size_t>(r * wide.cols + c);
        const double up = gated ? x[at + static_cast<std::size_t>(s.cols)] : 1.0;
        const double g = dy[static_cast<std::size_t>(r * s.cols + c)];
        const Curve f = curve(GetParam(), x[at]);
        // 1 + tanh and 1 - s lose what they cancel, so magnitudes are those of x and 1.
        y.add(f.value * up, (std::abs(x[at]) + std::abs(f.value)) * std::abs(up));
        dx.value[at] = f.slope * up * g;
        dx.size[at] = (1 + std::abs(x[at]) + std::abs(f.slope)) * std::abs(up * g);
        if (!gated) continue;
        dx.value[at + static_cast<std::size_t>(s.cols)] = f.value * g;
        dx.size[at + static_cast<std::size_t>(s.cols)] =
            (std::abs(x[at]) + std::abs(f.value)) * std::abs(g);
      }
    }
    in_every_order([&](const Ops<float>& ops, const Device& device) -> std::vector<Compared> {
      const DeviceArray in(device, x), out(device, s.rows * s.cols), din(device, dy),
          dout(device, wide.rows * wide.cols);
      ops.activation_forward({GetParam(), matrix(in, wide), matrix(out, s)});
      ops.activation_backward({GetParam(), matrix(in, wide), matrix(din, s), matrix(dout, wide)});
      return {{"y", out.read(), y}, {"dx", dout.read(), dx}};
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CudaActivation,
                         testing::Values(Activation::kGeluTanh, Activation::kRelu,
                                         Activation::kRelu2, Activation::kSwiGlu),
                         [](const testing::TestParamInfo<Activation>& info) {
                           return std::string(enum_name(info.param));
                         });

TEST(CudaOps, CrossEntropyEqualsTheDefinition) {
  for (const std::int64_t vocab : {2, 13, 150, 300}) {
    const std::int64_t padded = (vocab + 15) / 16 * 16;
    const std::vector<float> logits = random_numbers<float>(4 * padded, 1, 3);
    const std::vector<std::int32_t> targets = {0, 1, kIgnoredTarget,
                                               static_cast<std::int32_t>(vocab - 1)};
    Wanted losses, gradient;
    for (std::size_t r = 0; r < 4; ++r) {
      const float* row = &logits[r * static_cast<std::size_t>(padded)];
      double sum = 0;
      for (std::int64_t v = 0; v < vocab; ++v) sum += std::exp(double{row[v]});
      const double lse = std::log(sum);
      const bool counts = targets[r] != kIgnoredTarget;
      losses.add(counts ? lse - row[targets[r]] : 0,
                 counts ? 1 + std::abs(lse) + std::abs(row[targets[r]]) : 0);
      for (std::int64_t v = 0; v < padded; ++v) {
        const double p = counts && v < vocab ? std::exp(row[v] - lse) : 0;
        const double hit = counts && v == targets[r] ? 1 : 0;
        // An error of the exponent counts as often as the exponent is large.
        gradient.add(0.25 * (p - hit), 0.25 * (p * (1 + std::abs(row[v]) + std::abs(lse)) + hit));
      }
    }
    in_every_order([&](const Ops<float>& ops, const Device& device) -> std::vector<Compared> {
      const DeviceArray in(device, logits), out(device, 4);
      std::vector<float> bits(4);
      std::memcpy(bits.data(), targets.data(), sizeof(float) * 4);
      const DeviceArray ids(device, bits);
      ops.cross_entropy({.logits = {in.data(), 4, padded},
                         .vocab = vocab,
                         .targets = reinterpret_cast<const std::int32_t*>(ids.data()),
                         .losses = out.data(),
                         .write_gradient = true,
                         .gradient_scale = 0.25});
      return {{"losses", out.read(), losses}, {"gradient", in.read(), gradient}};
    });
  }
}

TEST(CudaOps, EmbeddingEqualsTheDefinition) {
  constexpr std::int64_t kVocab = 70, kBatch = 3, kSeq = 23;
  for (const std::int64_t cols : {1, 33, 130}) {
    const std::int64_t rows = kBatch * kSeq;
    std::vector<std::int32_t> ids;
    for (std::int64_t r = 0; r < rows; ++r)
      ids.push_back(static_cast<std::int32_t>(r * r % kVocab));
    const std::vector<float> tokens = random_numbers<float>(kVocab * cols, 1),
                             positions = random_numbers<float>((kSeq + 2) * cols, 2),
                             dy = random_numbers<float>(rows * cols, 3);
    Wanted y, dtokens, dpositions;
    const auto begin_with = [](Wanted& w, const std::vector<float>& x) {
      for (const float v : x) w.add(v, std::abs(v));
    };
    begin_with(dtokens, tokens), begin_with(dpositions, positions);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto token = static_cast<std::size_t>(ids[static_cast<std::size_t>(r)] * cols + c);
        const auto place = static_cast<std::size_t>(r % kSeq * cols + c);
        const auto later = static_cast<std::size_t>((r % kSeq + 2) * cols + c);
        const double g = dy[static_cast<std::size_t>(r * cols + c)];
        y.add(double{tokens[token]} + positions[later],
              std::abs(tokens[token]) + std::abs(positions[later]));
        dtokens.value[token] += g, dtokens.size[token] += std::abs(g);
        dpositions.value[place] += g, dpositions.size[place] += std::abs(g);
      }
    }
    in_every_order([&](const Ops<float>& ops, const Device& device) -> std::vector<Compared> {
      std::vector<float> bits(ids.size());
      std::memcpy(bits.data(), ids.data(), sizeof(float) * ids.size());
      const DeviceArray places(device, bits), table(device, tokens), where(device, positions),
          out(device, rows * cols), din(device, dy), dtable(device, tokens),
          dwhere(device, positions);
      const auto* on_device = reinterpret_cast<const std::int32_t*>(places.data());
      const Matrix<float> t(table.data(), kVocab, cols), p(where.data(), kSeq + 2, cols);
      ops.embed_forward({on_device, kSeq, 2, t, p, {out.data(), rows, cols}});
      ops.embed_backward({on_device,
                          kSeq,
                          {din.data(), rows, cols},
                          {dtable.data(), kVocab, cols},
                          {dwhere.data(), kSeq + 2, cols}});
      return {{"y", out.read(), y},
              {"dtokens", dtable.read(), dtokens},
              {"dpositions", dwhere.read(), dpositions}};
    });
  }
}

TEST(CudaOps, SumsUpdatesAndCopiesEqualTheDefinition) {
  for (const Shape& s : kShapes) {
    const std::int64_t count = s.rows * s.cols;
    const std::vector<float> x = random_numbers<float>(count, 1),
                             start = random_numbers<float>(s.cols, 2),
                             p = random_numbers<float>(count, 3),
                             m = random_numbers<float>(count, 4, 0.1);
    std::vector<float> v(m);
    for (float& value : v) value *= value;
    Wanted sums, squares, updated, copied;
    for (const float value : start) sums.add(value, std::abs(value));
    squares.add(0, 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i % start.size();
      sums.value[c] += x[i], sums.size[c] += std::abs(x[i]);
      squares.value[0] += double{x[i]} * x[i], squares.size[0] += double{x[i]} * x[i];
      const double g = 0.5 * x[i], m1 = 0.9 * m[i] + 0.1 * g, v1 = 0.9999 * v[i] + 0.0001 * g * g;
      const double root = std::sqrt(v1 / (1 - std::pow(0.9999, 3))) + 1e-8;
      const double step = m1 / (1 - std::pow(0.9, 3)) / root;
      const double step_size =
          (0.9 * std::abs(m[i]) + 0.1 * std::abs(g)) / (1 - std::pow(0.9, 3)) / root;
      updated.add(p[i] - 0.01 * (step + 0.1 * p[i]),
                  std::abs(p[i]) + 0.01 * (step_size + 0.1 * std::abs(p[i])));
      copied.add(x[i], 0);
    }
    in_every_order([&](const Ops<float>& ops, const Device& device) -> std::vector<Compared> {
      const DeviceArray in(device, x), sum(device, start), parameters(device, p), first(device, m),
          second(device, v), copy(device, count);
      double total = 0;
      ops.column_sum({matrix(in, s), sum.data()});
      ops.sum_squares({in.data(), count, &total});
      ops.adamw({.parameter = parameters.data(),
                 .gradient = in.data(),
                 .m = first.data(),
                 .v = second.data(),
                 .count = count,
                 .learning_rate = 0.01,
                 .beta1 = 0.9,
                 .beta2 = 0.9999,
                 .weight_decay = 0.1,
                 .gradient_scale = 0.5,
                 .step = 3});
      const auto heads = [&](const DeviceArray& y) {
        return Heads<float>(y.data(), 1, s.rows, 1, s.cols, count, s.cols);
      };
      ops.copy_heads({heads(in), heads(copy)});
      return {{"column sums", sum.read(), sums},
              {"squares", {static_cast<float>(total)}, squares},
              {"adamw", parameters.read(), updated},
              {"copy", copy.read(), copied}};
    });
  }
}

TEST(CudaOps, RopeEqualsTheDefinitionFarOut) {
  constexpr std::int64_t kBatch = 2, kSeq = 9, kHeads = 3;
  for (const std::int64_t dim : {2, 8, 34}) {
    for (const std::int64_t first : {0, 30000}) {
      const std::int64_t count = kBatch * kSeq * kHeads * dim;
      const std::vector<float> x = random_numbers<float>(count, 1);
      Wanted turned;
      for (std::int64_t n = 0; n < count; ++n) {
        const std::int64_t i = n % dim % (dim / 2), t = n / dim / kHeads % kSeq;
        const double angle =
            static_cast<double>(first + t) *
            std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        const auto low = static_cast<std::size_t>(n / dim * dim + i);
        const double u = x[low], v = x[low + static_cast<std::size_t>(dim / 2)];
        turned.add(n % dim < dim / 2 ? u * std::cos(angle) - v * std::sin(angle)
                                     : u * std::sin(angle) + v * std::cos(angle),
                   std::abs(u) + std::abs(v));
      }
      in_every_order([&](const Ops<float>& ops, const Device& device) -> std::vector<Compared> {
        const DeviceArray in(device, x);
        ops.rope({.x = {in.data(), kBatch, kSeq, kHeads, dim, kSeq * kHeads * dim, kHeads * dim},
                  .first_position = first});
        return {{"turned", in.read(), turned}};
      });
    }
  }
}

}  // namespace
}  // namespace headloom
