// Embedding: a thread to an element forward, to a column of every 64th token backward.
#include "ops/cuda_block.cuh"
#include "ops/cuda_kernels.h"

namespace headloom::cuda {
namespace {

using namespace simt;

constexpr int kOwners = 64;  // tokens, and positions, are shared out among so many blocks

SIMT_KERNEL(kBlockThreads, 1)
void forward(Embed e) {
  const std::int64_t cols = e.y.cols, count = e.y.rows * cols;
  for (std::int64_t i = first_item(); i < count; i += item_stride()) {
    const std::int64_t r = i / cols, c = i % cols;
    float y = e.tokens.data[e.ids[r] * e.tokens.stride + c];
    if (e.positions.data != nullptr) {
      y += e.positions.data[(e.first_position + r % e.seq) * e.positions.stride + c];
    }
    e.y.data[r * e.y.stride + c] = y;
  }
}

SIMT_KERNEL(kBlockThreads, 1)
void backward(EmbedGradient e) {
  const std::int64_t c = first_item();
  if (c >= e.dy.cols) return;
  for (std::int64_t r = 0; r < e.dy.rows; ++r) {
    const std::int64_t token = e.ids[r], position = r % e.seq;
    const float* dy = e.dy.data + r * e.dy.stride + c;
    if (token % kOwners == block_y()) e.dtokens.data[token * e.dtokens.stride + c] += *dy;
    if (e.dpositions.data != nullptr && position % kOwners == block_y()) {
      e.dpositions.data[position * e.dpositions.stride + c] += *dy;
    }
  }
}

}  // namespace

void embed_forward(const Embed& args) {
  launch("embed_forward", forward, threads_for(args.y.rows * args.y.cols), args);
}

void embed_backward(const EmbedGradient& args) {
  LaunchShape shape = threads_for(args.dy.cols);
  shape.grid.y = kOwners;
  launch("embed_backward", backward, shape, args);
}

}  // namespace headloom::cuda
