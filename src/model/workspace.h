#pragma once

#include <vector>

#include "model/config.h"
#include "tensor/arena.h"
#include "tensor/view.h"

namespace headloom {

/// What a model is made for: training keeps every block's activations and their gradients.
enum class Use { kInference, kTraining };

/// What one block leaves behind for its backward pass. R = B*T.
template <class T>
struct BlockActivations {
  Matrix<T> x;       ///< [R,C] residual stream that enters the block
  Matrix<T> norm1;   ///< [R,C]
  T *mean1, *rstd1;  ///< [R]
  Matrix<T> qkv;     ///< [R, fused_width]
  Matrix<T> heads;   ///< [R, NH*HS]
  T* lse;            ///< [B,NH,T]
  Matrix<T> mid;     ///< [R,C] residual stream after attention
  Matrix<T> norm2;   ///< [R,C]
  T *mean2, *rstd2;  ///< [R]
  Matrix<T> hidden;  ///< [R,F] before the activation; [R,2F] before a gated one
  Matrix<T> active;  ///< [R,F] after it
};

/// All memory of a forward and backward pass.
template <class T>
struct Workspace {
  std::vector<BlockActivations<T>> blocks;
  std::size_t block_bytes = 0;  ///< of all blocks together
  Matrix<T> branch;             ///< [R,C] what a sublayer adds to the residual stream
  Matrix<T> last;               ///< [R,C] residual stream after the last block
  Matrix<T> final_norm;         ///< [R,C]
  T *mean_final, *rstd_final;
  Matrix<T> logits;                ///< [chunk,Vp]
  T* losses;                       ///< [R]
  std::int32_t *inputs, *targets;  ///< [R] of the batch that is worked on
  // Gradients of activations; absent for inference.
  Matrix<T> dstream;  ///< [R,C] residual stream
  Matrix<T> dnorm;    ///< [R,C] a norm's output
  Matrix<T> dheads;   ///< [R, widest NH*HS]
  Matrix<T> dqkv;     ///< [R, widest fused_width]
  Matrix<T> dhidden;  ///< like hidden
};

/// The layout of the layer with the most heads: what it needs is enough for every layer.
HeadLayout widest_layout(const ModelConfig& config);

/// Lays the workspace out for up to `batch` sequences of up to `seq` tokens. For inference all
/// blocks share one set of activations, and there are no gradients. On a measuring arena this tells
/// the bytes that a model needs beside its parameters.
template <class T>
Workspace<T> arrange_workspace(Arena& arena, const ModelConfig& config, std::int64_t batch,
                               std::int64_t seq, Use use);

}  // namespace headloom
