#include "model/decode.h"

#include <algorithm>

namespace headloom {

Decoder::Decoder(const ModelConfig& config, const Ops<float>& ops, float* parameters,
                 std::int64_t prompt_chunk)
    : model_(config, ops, parameters, 1, std::min(prompt_chunk, config.context), Use::kInference),
      prompt_chunk_(model_.max_seq()) {
  arena_ = arrange(
      [&](Arena& arena) {
        caches_.clear();
        for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
          const HeadLayout heads = config.head_layout(layer);
          const std::int64_t size = config.context * heads.kv_width();
          // A head's positions lie together: a decoded token then reads each head as one stream.
          const auto cache = [&] {
            return Heads<float>(arena.take<float>(size), 1, config.context, heads.kv_heads,
                                heads.head_dim, size, heads.head_dim,
                                config.context * heads.head_dim);
          };
          const Heads<float> k = cache();
          caches_.push_back({k, cache(), 0});
        }
        const std::int64_t vocab = config.padded_vocab();
        logits_ = {arena.take<float>(vocab), 1, vocab};
      },
      *ops.device);
}

void Decoder::reset() {
  for (KvCache<float>& cache : caches_) cache.length = 0;
}

std::span<const float> Decoder::feed(std::span<const std::int32_t> ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  if (count == 0) fail("the decoder was fed no tokens");
  if (length() + count > context()) {
    fail_usage("{} tokens after {} do not fit into the model's context of {}", count, length(),
               context());
  }
  Matrix<const float> hidden;
  for (std::int64_t begin = 0; begin < count; begin += prompt_chunk_) {
    const std::int64_t size = std::min(prompt_chunk_, count - begin);
    hidden = model_.hidden_states(ids.data() + begin, 1, size, length(), caches_);
  }
  model_.logits(hidden.row_range(hidden.rows - 1, 1), logits_);
  const std::int64_t vocab = model_.config().vocab_size;
  host_logits_.emplace(*model_.ops().device, logits_.data, vocab);
  return {host_logits_->data(), static_cast<std::size_t>(vocab)};
}

}  // namespace headloom
