#include "heads/patterns.h"

#include <algorithm>
#include <cmath>

namespace headloom {
namespace {

/// Less than this beyond the sink is nothing (as in attend_probe).
constexpr float kNothingLeft = 1e-6F;
/// With less than this left the difference to a whole has lost too much: the rest is summed
/// instead.
constexpr float kLittleLeft = 0.05F;

}  // namespace

PatternReader::PatternReader(const ModelConfig& config, float* parameters, std::int64_t seq,
                             const Ops<float>& ops)
    : config_(config),
      seq_(seq),
      model_(std::make_unique<ReadableModel>(config, ops, parameters, 1, seq, Use::kTraining)) {}

void PatternReader::read(const std::int32_t* ids) {
  std::vector<KvCache<float>> no_cache;
  model_->gpt().hidden_states(ids, 1, seq_, 0, no_cache);
  acts_.clear();
  for (std::int64_t l = 0; l < config_.n_layers; ++l) acts_.push_back(model_->host().block(l));
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
  const std::int64_t kv = head.head / (layout.heads / layout.kv_heads), width = layout.head_dim;
  float left = 1 - sink;
  if (left >= kLittleLeft) {
    const float *z = a.heads.row(i) + head.head * width, *v = s.v.at(0, 0, kv);
    for (std::int64_t d = 0; d < width; ++d) out[d] = (z[d] - sink * v[d]) / left;
    return;
  }
  std::fill_n(out, width, 0.0F);
  left = 0;
  for (std::int64_t j = 1; j <= i; ++j) {
    const float p = std::exp(score(s, head, i, j) - a.lse[head.head * seq_ + i]);
    const float* v = s.v.at(0, j, kv);
    left += p;
    for (std::int64_t d = 0; d < width; ++d) out[d] += p * v[d];
  }
  for (std::int64_t d = 0; d < width; ++d) out[d] = left < kNothingLeft ? 0.0F : out[d] / left;
}

}  // namespace headloom
