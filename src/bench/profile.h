#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace headloom {

/// Where the time of one kind of op went.
struct OpProfile {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double flops = 0;  ///< of multiplications and attention; 0 where memory is the limit
  double bytes = 0;  ///< read and written at least once; 0 where arithmetic is the limit
};

/// A table that keeps account of every call and waits for each to be done. One account, and one
/// base, per process.
const Ops<float>& profiled_ops(const Ops<float>& base = cpu_ops());

/// The account since the last reset, in the order of the table.
std::vector<OpProfile> read_profile();
void reset_profile();

/// Multiply-add work of attention in FLOPs, causal pairs counted exactly: two products forward,
/// five backward.
double attend_flops(const Heads<const float>& q, const Heads<const float>& k, int products);

}  // namespace headloom
