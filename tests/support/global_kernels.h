#pragma once

#include "simt/simt.h"

/// Kernels that break one rule about global memory, or do not. Compiled like the kernels of the
/// ops.
namespace headloom::simt {

inline constexpr int kThreads = 64;
inline constexpr int kBlocks = 5;
inline constexpr int kCount = kThreads * kBlocks;

struct Params {
  const float* in;
  float* out;
  bool break_rule;
};

void writes_past_the_end(Params p);
void reads_past_the_end(Params p);
void reads_before_the_front(Params p);
void copies_from_past_the_end(Params p);
void two_blocks_write(Params p);
void two_blocks_add(Params p);
void reads_what_another_block_writes(Params p);

}  // namespace headloom::simt
