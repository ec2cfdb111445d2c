#pragma once

#include <functional>
#include <string>
#include <vector>

namespace headloom {

/// One claim that can be checked on the user's own build and machine.
struct SelfCheck {
  std::string name;
  std::function<std::string()> run;  ///< "" when the claim holds, otherwise what is wrong
};

/// The checks in their order: kernels against the reference, gradients against the complex step,
/// both views of attention, cached decoding, tokenizer, determinism, resume, damaged checkpoints.
std::vector<SelfCheck> self_checks();

}  // namespace headloom
