#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace headloom {

/// One claim that can be checked on the user's own build and machine.
struct SelfCheck {
  std::string name;
  std::function<std::string()> run;  ///< "" when the claim holds, otherwise what is wrong
};

/// The checks in their order: kernels of a device against the reference, gradients against the
/// complex step, cached decoding, training beside the CPU, tokenizer, determinism, resume, damaged
/// checkpoints. The table's precision decides what may differ.
std::vector<SelfCheck> self_checks(const Ops<float>& ops = cpu_ops());

}  // namespace headloom
