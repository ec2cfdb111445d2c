#include "heads/patterns.h"

#include <algorithm>
#include <cmath>

namespace headloom {
namespace {

/// Less than this beyond the sink is nothing (as in attend_probe).
constexpr float kNothingLeft = 1e-6F;

}  // namespace

PatternReader::PatternReader(const ModelConfig& config, float* parameters, std::int64_t seq)
    : config_(config), seq_(seq), model_(config, cpu_ops(), parameters, 1, seq, Use::kTraining) {}

void PatternReader::read(const std::int32_t* ids) {
  std::vector<KvCache<float>> no_cache;
  model_.hidden_states(ids, 1, seq_, 0, no_cache);
}

float PatternReader::score(const SplitHeads<float>& s, const HeadId& head, std::int64_t i,
                           std::int64_t j) const {
  const float *q = s.q.at(0, i, head.head), *k = s.k.at(0, j, head.head / (s.q.heads / s.k.heads));
  float sum = 0;
  for (std::int64_t d = 0; d < s.q.head_dim; ++d) sum += q[d] * k[d];
  return sum / std::sqrt(static_cast<float>(s.q.head_dim));
}

void PatternReader::row(const HeadId& head, std::int64_t i, float* row) const {
  const BlockActivations<float>& a = acts(head.layer);
  const SplitHeads<float> s = split_heads(a.qkv, 1, config_.head_layout(head.layer));
  const float lse = a.lse[head.head * seq_ + i];
  for (std::int64_t j = 0; j <= i; ++j) row[j] = std::exp(score(s, head, i, j) - lse);
}

void PatternReader::output_beyond_sink(const HeadId& head, std::int64_t i, float* out) const {
  const BlockActivations<float>& a = acts(head.layer);
  const HeadLayout layout = config_.head_layout(head.layer);
  const SplitHeads<float> s = split_heads(a.qkv, 1, layout);
  const float sink = std::exp(score(s, head, i, 0) - a.lse[head.head * seq_ + i]);
  const float left = 1 - sink;
  const float* z = a.heads.row(i) + head.head * layout.head_dim;
  const float* v = s.v.at(0, 0, head.head / (layout.heads / layout.kv_heads));
  for (std::int64_t d = 0; d < layout.head_dim; ++d) {
    out[d] = left < kNothingLeft ? 0.0F : (z[d] - sink * v[d]) / left;
  }
}

}  // namespace headloom
