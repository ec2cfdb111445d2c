#pragma once

#include <vector>

#include "attention/head_layout.h"
#include "bench/interleaved.h"

namespace headloom {

/// One attention as the model has it: fused rows of queries, keys and values.
struct AttentionShape {
  std::int64_t batch = 4;
  std::int64_t seq = 1024;
  HeadLayout heads;
};

/// Forward in three ways (scores materialised as T x T matrices, heads copied apart first, strides
/// as they lie; the last is the model's) and backward in two. On a card the kernel of the seed, one
/// block to a head, takes the place of the first. Causal work counted exactly.
std::vector<BenchRow> bench_attention(const AttentionShape& shape,
                                      const Ops<float>& ops = cpu_ops());

/// Forward and backward for each way of sharing out a width.
std::vector<BenchRow> bench_heads(std::int64_t batch, std::int64_t seq,
                                  const std::vector<HeadLayout>& layouts,
                                  const Ops<float>& ops = cpu_ops());

/// The projections of one layer in three ways: 3 NH small multiplications, three, one.
std::vector<BenchRow> bench_projection(std::int64_t rows, std::int64_t width, std::int64_t heads,
                                       const Ops<float>& ops = cpu_ops());

}  // namespace headloom
