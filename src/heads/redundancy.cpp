#include "heads/redundancy.h"

#include <algorithm>
#include <cmath>

#include "heads/patterns.h"
#include "ops/attend_probe_ref.h"

namespace headloom {
namespace {

/// Outputs beyond the sink of one layer's heads over all sequences, less their means.
/// Shapes: [rows, NH*HS], rows = B * (T - 1).
std::vector<std::vector<float>> centred_outputs(const ModelConfig& config, PatternReader& reader,
                                                const Sequences& s) {
  std::vector<std::vector<float>> layers(static_cast<std::size_t>(config.n_layers));
  const std::int64_t rows = s.batch * (s.seq - 1);
  for (std::int64_t l = 0; l < config.n_layers; ++l) {
    layers[static_cast<std::size_t>(l)].resize(
        static_cast<std::size_t>(rows * config.head_layout(l).query_width()));
  }
  for (std::int64_t b = 0; b < s.batch; ++b) {
    reader.read(s.ids.data() + b * s.seq);
    for (const HeadId& head : all_heads(config)) {
      const HeadLayout layout = config.head_layout(head.layer);
      float* out = layers[static_cast<std::size_t>(head.layer)].data() +
                   b * (s.seq - 1) * layout.query_width() + head.head * layout.head_dim;
      for (std::int64_t t = 1; t < s.seq; ++t) {
        reader.output_beyond_sink(head, t, out + (t - 1) * layout.query_width());
      }
    }
  }
  for (std::vector<float>& z : layers) {
    const std::size_t width = z.size() / static_cast<std::size_t>(rows);
    for (std::size_t c = 0; c < width; ++c) {
      double mean = 0;
      for (std::size_t at = c; at < z.size(); at += width) mean += z[at];
      mean /= static_cast<double>(rows);
      for (std::size_t at = c; at < z.size(); at += width) z[at] -= static_cast<float>(mean);
    }
  }
  return layers;
}

/// Squared Frobenius norm of each HS x HS block of X^T Y.
std::vector<double> block_norms(std::vector<float>& x, std::vector<float>& y, std::int64_t rows,
                                std::int64_t head_dim) {
  const auto wide = [&](std::vector<float>& m) {
    return Matrix<const float>(m.data(), rows, static_cast<std::int64_t>(m.size()) / rows);
  };
  const Matrix<const float> a = wide(x), b = wide(y);
  std::vector<float> product(static_cast<std::size_t>(a.cols * b.cols));
  const Matrix<float> c(product.data(), a.cols, b.cols);
  cpu_ops().gemm({.a = a, .transpose_a = true, .b = b, .c = c});
  const std::int64_t n = a.cols / head_dim, m = b.cols / head_dim;
  std::vector<double> norms(static_cast<std::size_t>(n * m));
  for (std::int64_t i = 0; i < a.cols; ++i) {
    for (std::int64_t j = 0; j < b.cols; ++j) {
      norms[static_cast<std::size_t>(i / head_dim * m + j / head_dim)] +=
          double{c(i, j)} * double{c(i, j)};
    }
  }
  return norms;
}

/// Jensen-Shannon divergence of two rows of n numbers that sum to 1.
double divergence(const float* p, const float* q, std::int64_t n) {
  double sum = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    const double middle = (double{p[j]} + double{q[j]}) / 2;
    if (p[j] > 0) sum += p[j] * std::log(p[j] / middle) / 2;
    if (q[j] > 0) sum += q[j] * std::log(q[j] / middle) / 2;
  }
  return sum;
}

/// Row i of a head without key 0, scaled up to a whole; false when nothing is left.
bool row_beyond_sink(const PatternReader& reader, const HeadId& head, std::int64_t i, float* row) {
  reader.row(head, i, row);
  double left = 0;
  for (std::int64_t j = 1; j <= i; ++j) left += row[j];
  if (left < probe_detail::kNothingLeft) return false;
  for (std::int64_t j = 1; j <= i; ++j) row[j] = static_cast<float>(row[j] / left);
  return true;
}

}  // namespace

HeadTable output_similarity(const ModelConfig& config, float* parameters, const Sequences& s,
                            bool across_layers, const Ops<float>& ops) {
  PatternReader reader(config, parameters, s.seq, ops);
  std::vector<std::vector<float>> layers = centred_outputs(config, reader, s);
  const std::int64_t rows = s.batch * (s.seq - 1), width = config.head_layout(0).head_dim;
  HeadTable table(static_cast<std::size_t>(config.first_head(config.n_layers)));
  const auto fill = [&](std::int64_t a, std::int64_t b) {
    const std::vector<double> norms = block_norms(layers[static_cast<std::size_t>(a)],
                                                  layers[static_cast<std::size_t>(b)], rows, width);
    for (std::int64_t i = 0; i < config.heads_in(a); ++i) {
      for (std::int64_t j = 0; j < config.heads_in(b); ++j) {
        table.set(static_cast<std::size_t>(config.first_head(a) + i),
                  static_cast<std::size_t>(config.first_head(b) + j),
                  norms[static_cast<std::size_t>(i * config.heads_in(b) + j)]);
      }
    }
  };
  for (std::int64_t a = 0; a < config.n_layers; ++a) {
    for (std::int64_t b = across_layers ? 0 : a; b <= a; ++b) fill(a, b);
  }
  std::vector<double> own;
  for (std::size_t h = 0; h < table.heads; ++h) own.push_back(std::sqrt(table.at(h, h)));
  for (std::size_t a = 0; a < table.heads; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      const double norm = own[a] * own[b];
      table.set(a, b, norm > 0 ? table.at(a, b) / norm : 0.0);
    }
  }
  return table;
}

HeadTable pattern_divergence(const ModelConfig& config, float* parameters, const Sequences& s) {
  PatternReader reader(config, parameters, s.seq);
  const std::vector<HeadId> heads = all_heads(config);
  HeadTable table(heads.size()), rows(heads.size());
  std::vector<std::vector<float>> row(heads.size(),
                                      std::vector<float>(static_cast<std::size_t>(s.seq)));
  std::vector<char> there(heads.size());
  for (std::int64_t b = 0; b < s.batch; ++b) {
    reader.read(s.ids.data() + b * s.seq);
    for (std::int64_t i = 2; i < s.seq; ++i) {
      for (std::size_t h = 0; h < heads.size(); ++h) {
        there[h] = row_beyond_sink(reader, heads[h], i, row[h].data()) ? 1 : 0;
      }
      for (std::size_t x = 0; x < heads.size(); ++x) {
        for (std::size_t y = 0; y < x; ++y) {
          if (there[x] == 0 || there[y] == 0) continue;
          table.set(x, y, table.at(x, y) + divergence(row[x].data() + 1, row[y].data() + 1, i));
          rows.set(x, y, rows.at(x, y) + 1);
        }
      }
    }
  }
  for (std::size_t i = 0; i < table.values.size(); ++i) {
    table.values[i] = rows.values[i] > 0 ? table.values[i] / rows.values[i] : NAN;
  }
  for (std::size_t h = 0; h < heads.size(); ++h) table.set(h, h, 0);
  return table;
}

double layer_correlation(const ModelConfig& config, const std::vector<double>& x,
                         const std::vector<double>& y) {
  double sum = 0, layers = 0;
  for (std::int64_t l = 0; l < config.n_layers; ++l) {
    if (config.heads_in(l) < 3) continue;
    const auto from = static_cast<std::size_t>(config.first_head(l));
    const auto count = static_cast<std::size_t>(config.heads_in(l));
    sum += rank_correlation(std::span(x).subspan(from, count), std::span(y).subspan(from, count));
    layers += 1;
  }
  return layers > 0 ? sum / layers : NAN;
}

std::vector<double> redundancy(const ModelConfig& config, const HeadTable& similarity) {
  const std::vector<HeadId> heads = all_heads(config);
  std::vector<double> most(heads.size());
  for (std::size_t a = 0; a < heads.size(); ++a) {
    for (std::size_t b = 0; b < heads.size(); ++b) {
      if (a == b || heads[a].layer != heads[b].layer) continue;
      most[a] = std::max(most[a], similarity.at(a, b));
    }
  }
  return most;
}

}  // namespace headloom
