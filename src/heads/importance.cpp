#include "heads/importance.h"

#include "heads/readable_model.h"

#include <algorithm>
#include <cmath>

namespace headloom {
namespace {

constexpr std::int64_t kBatch = 8;

}  // namespace

HeadSlices head_slices(const ModelConfig& config, const ModelWeights<const float>& weights,
                       const HeadId& head) {
  const HeadLayout layout = config.head_layout(head.layer);
  const auto& attention = weights.blocks[static_cast<std::size_t>(head.layer)].attention;
  const std::int64_t group = layout.heads / layout.kv_heads, width = layout.head_dim;
  return {.query = attention.qkv.col_range(layout.query_column(head.head), width),
          .key = attention.qkv.col_range(layout.key_column(head.head / group), width),
          .value = attention.qkv.col_range(layout.value_column(head.head / group), width),
          .out = attention.out.row_range(layout.query_column(head.head), width),
          .group = group};
}

GradientTaps::GradientTaps(const ModelConfig& config)
    : heads_(config.first_head(config.n_layers)), taps_(static_cast<std::size_t>(config.n_layers)) {
  for (std::int64_t l = 0; l < config.n_layers; ++l) {
    first_.push_back(config.first_head(l));
    taps_[static_cast<std::size_t>(l)].see_gradient = [this, l](const Heads<const float>& out,
                                                                const Heads<const float>& dout) {
      see(l, out, dout);
    };
  }
  clear();
}

void GradientTaps::clear() {
  for (std::vector<double>* sums : {&absolute_, &sum_, &squares_}) {
    sums->assign(static_cast<std::size_t>(heads_), 0.0);
  }
  sequences_ = 0;
}

void GradientTaps::see(std::int64_t layer, const Heads<const float>& out,
                       const Heads<const float>& dout) {
  if (layer == 0) sequences_ += out.batch;
  for (std::int64_t h = 0; h < out.heads; ++h) {
    const auto at = static_cast<std::size_t>(first_[static_cast<std::size_t>(layer)] + h);
    for (std::int64_t b = 0; b < out.batch; ++b) {
      double product = 0, squares = 0;
      for (std::int64_t t = 0; t < out.seq; ++t) {
        const float *z = out.at(b, t, h), *dz = dout.at(b, t, h);
        for (std::int64_t d = 0; d < out.head_dim; ++d) {
          product += double{z[d]} * double{dz[d]};
          squares += double{dz[d]} * double{dz[d]};
        }
      }
      absolute_[at] += std::abs(product);
      sum_[at] += product;
      squares_[at] += squares;
    }
  }
}

namespace {

/// Each head's part of the sum over its layer.
std::vector<double> shares_of(const ModelConfig& config, std::vector<double> squares) {
  std::vector<double> layer(static_cast<std::size_t>(config.n_layers));
  const std::vector<HeadId> heads = all_heads(config);
  for (std::size_t h = 0; h < heads.size(); ++h) {
    layer[static_cast<std::size_t>(heads[h].layer)] += squares[h];
  }
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const double whole = layer[static_cast<std::size_t>(heads[h].layer)];
    squares[h] = whole > 0 ? squares[h] / whole : 0.0;
  }
  return squares;
}

/// Sum over a head's slices of what `square` makes of each number's place in the flat array.
template <class Square>
double sum_over(const HeadSlices& s, Square&& square) {
  const auto part = [&](const Matrix<const float>& m) {
    double sum = 0;
    for (std::int64_t r = 0; r < m.rows; ++r) {
      for (std::int64_t c = 0; c < m.cols; ++c) sum += square(&m(r, c));
    }
    return sum;
  };
  return part(s.query) + part(s.out) + (part(s.key) + part(s.value)) / static_cast<double>(s.group);
}

}  // namespace

std::vector<double> layer_shares(const ModelConfig& config, const ModelWeights<const float>& slices,
                                 std::vector<double>* norms) {
  std::vector<double> squares;
  for (const HeadId& head : all_heads(config)) {
    squares.push_back(sum_over(head_slices(config, slices, head),
                               [](const float* x) { return double{*x} * double{*x}; }));
    if (norms != nullptr) norms->push_back(std::sqrt(squares.back()));
  }
  return shares_of(config, std::move(squares));
}

std::vector<double> update_shares(const Trainer& trainer) {
  const TrainConfig& train = trainer.config().train;
  const ModelConfig& config = trainer.config().model;
  const double step = static_cast<double>(trainer.steps_done());
  const double correct1 = 1 - std::pow(train.beta1, step);
  const double correct2 = 1 - std::pow(train.beta2, step);
  const HostNumbers<float> parameters = trainer.parameters().on_host(),
                           m = trainer.moment1().on_host(), v = trainer.moment2().on_host();
  const float* base = parameters.data();
  const ModelWeights<const float> weights = trainer.layout().views(base);
  std::vector<double> squares;
  for (const HeadId& head : all_heads(config)) {
    squares.push_back(sum_over(head_slices(config, weights, head), [&](const float* x) {
      const std::ptrdiff_t at = x - base;
      const double root = std::sqrt(v.data()[at] / correct2) + train.adam_eps;
      const double moved = m.data()[at] / correct1 / root + train.weight_decay * *x;
      return moved * moved;
    }));
  }
  return shares_of(config, std::move(squares));
}

std::vector<HeadGradient> head_gradients(const ModelConfig& config, float* parameters,
                                         const Sequences& s, const Ops<float>& ops) {
  const std::int64_t batch = std::min(kBatch, s.batch);
  ReadableModel readable(config, ops, parameters, batch, s.seq, Use::kTraining);
  Gpt<float>& model = readable.gpt();
  const ParameterArray<float> gradients(model.layout(), *ops.device);
  const std::vector<std::int32_t> targets = next_tokens(s);
  GradientTaps taps(config);
  model.set_taps(taps.taps());
  for (std::int64_t b = 0; b < s.batch; b += batch) {
    const std::int64_t count = std::min(batch, s.batch - b), row = b * s.seq;
    model.accumulate_gradients({s.ids.data() + row, targets.data() + row, count, s.seq},
                               1.0 / static_cast<double>(s.seq - 1), gradients.data());
  }
  std::vector<double> norms;
  const std::vector<double> shares =
      layer_shares(config, model.layout().views(gradients.on_host().data()), &norms);
  std::vector<HeadGradient> result(shares.size());
  const double sequences = static_cast<double>(s.batch);
  for (std::size_t h = 0; h < result.size(); ++h) {
    result[h] = {.importance = taps.absolute()[h] / sequences,
                 .gate_gradient = taps.sum()[h] / sequences,
                 .output_norm = std::sqrt(taps.squares()[h]) / sequences,
                 .weight_norm = norms[h] / sequences,
                 .share = shares[h]};
  }
  return result;
}

}  // namespace headloom
