#include "model/workspace.h"

#include <algorithm>
#include <complex>

namespace headloom {
namespace {

/// Logits are made for so many rows at a time that a chunk has about as many numbers as the device
/// wants.
std::int64_t chunk_rows(const Device& device, std::int64_t rows, std::int64_t padded_vocab) {
  const std::int64_t fitting = device.chunk_numbers / padded_vocab / 64 * 64;
  return std::clamp<std::int64_t>(fitting, std::min<std::int64_t>(rows, 64), rows);
}

template <class T>
Matrix<T> take_matrix(Arena& arena, std::int64_t rows, std::int64_t cols) {
  return {arena.take<T>(rows * cols), rows, cols};
}

template <class T>
BlockActivations<T> arrange_block(Arena& arena, const ModelConfig& config, std::int64_t rows,
                                  const HeadLayout& heads) {
  const std::int64_t c = config.d_model;
  BlockActivations<T> acts;
  acts.x = take_matrix<T>(arena, rows, c);
  acts.norm1 = take_matrix<T>(arena, rows, c);
  acts.mean1 = arena.take<T>(rows);
  acts.rstd1 = arena.take<T>(rows);
  acts.qkv = take_matrix<T>(arena, rows, heads.fused_width());
  acts.heads = take_matrix<T>(arena, rows, heads.query_width());
  acts.lse = arena.take<T>(rows * heads.heads);
  acts.mid = take_matrix<T>(arena, rows, c);
  acts.norm2 = take_matrix<T>(arena, rows, c);
  acts.mean2 = arena.take<T>(rows);
  acts.rstd2 = arena.take<T>(rows);
  acts.hidden = take_matrix<T>(arena, rows, config.mlp_in_width());
  acts.active = take_matrix<T>(arena, rows, config.mlp_width());
  return acts;
}

template <class T>
std::vector<BlockActivations<T>> arrange_blocks(Arena& arena, const ModelConfig& config,
                                                std::int64_t rows, Use use) {
  std::vector<BlockActivations<T>> blocks;
  BlockActivations<T> shared;
  if (use == Use::kInference) {
    shared = arrange_block<T>(arena, config, rows, widest_layout(config));
  }
  for (std::int64_t l = 0; l < config.n_layers; ++l) {
    const HeadLayout heads = config.head_layout(l);
    if (use == Use::kTraining) {
      blocks.push_back(arrange_block<T>(arena, config, rows, heads));
    } else {
      blocks.push_back(shared);
      blocks.back().qkv = Matrix<T>(shared.qkv.data, rows, heads.fused_width());
      blocks.back().heads = Matrix<T>(shared.heads.data, rows, heads.query_width());
    }
  }
  return blocks;
}

}  // namespace

HeadLayout widest_layout(const ModelConfig& config) {
  HeadLayout widest = config.head_layout(0);
  for (std::int64_t l = 1; l < config.n_layers; ++l) {
    if (config.heads_in(l) > widest.heads) widest = config.head_layout(l);
  }
  return widest;
}

template <class T>
Workspace<T> arrange_workspace(Arena& arena, const ModelConfig& config, std::int64_t batch,
                               std::int64_t seq, Use use) {
  const std::int64_t rows = batch * seq, c = config.d_model, vp = config.padded_vocab();
  Workspace<T> work;
  const std::size_t before = arena.used();
  work.blocks = arrange_blocks<T>(arena, config, rows, use);
  work.block_bytes = arena.used() - before;
  work.branch = take_matrix<T>(arena, rows, c);
  work.last = take_matrix<T>(arena, rows, c);
  work.final_norm = take_matrix<T>(arena, rows, c);
  work.mean_final = arena.take<T>(rows);
  work.rstd_final = arena.take<T>(rows);
  work.logits = take_matrix<T>(arena, chunk_rows(arena.device(), rows, vp), vp);
  work.losses = arena.take<T>(rows);
  work.inputs = arena.take<std::int32_t>(rows);
  work.targets = arena.take<std::int32_t>(rows);
  if (use == Use::kInference) return work;
  const HeadLayout heads = widest_layout(config);
  work.dstream = take_matrix<T>(arena, rows, c);
  work.dnorm = take_matrix<T>(arena, rows, c);
  work.dheads = take_matrix<T>(arena, rows, heads.query_width());
  work.dqkv = take_matrix<T>(arena, rows, heads.fused_width());
  work.dhidden = take_matrix<T>(arena, rows, config.mlp_in_width());
  return work;
}

template Workspace<float> arrange_workspace(Arena&, const ModelConfig&, std::int64_t, std::int64_t,
                                            Use);
template Workspace<double> arrange_workspace(Arena&, const ModelConfig&, std::int64_t, std::int64_t,
                                             Use);
template Workspace<std::complex<double>> arrange_workspace(Arena&, const ModelConfig&, std::int64_t,
                                                           std::int64_t, Use);

}  // namespace headloom
