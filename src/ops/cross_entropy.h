#pragma once

#include "ops/check.h"

namespace headloom {

/// Target that counts for nothing: no loss, no gradient.
inline constexpr std::int32_t kIgnoredTarget = -1;

/// Computes the loss of each row and, in place, the gradient of its logits:
///   loss = log sum_v exp(logit_v) - logit_target,  dlogit_v = scale (softmax_v - [v = target]).
///
/// Shapes: logits [R,Vp]; targets int32 [R]; losses [R]. Columns from `vocab` on are padding: they
/// have no probability and gradient 0, whatever they hold.
/// Units: loss in nats; 0 <= targets < vocab, or kIgnoredTarget (loss 0, gradient 0).
/// Writes: losses (=); logits (= the gradient) when `write_gradient`, otherwise left alone.
template <class T>
struct CrossEntropy {
  Matrix<T> logits;
  std::int64_t vocab = 0;
  const std::int32_t* targets = nullptr;
  T* losses = nullptr;
  bool write_gradient = false;
  double gradient_scale = 1.0;
};

/// Targets in memory of the CPU. Errors: kFailed with the first that names no token.
inline void check_targets(const std::int32_t* targets, std::int64_t rows, std::int64_t vocab) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if (targets[r] < kIgnoredTarget || targets[r] >= vocab) {
      fail("cross_entropy: target {} at row {} is outside the vocabulary of {}", targets[r], r,
           vocab);
    }
  }
}

template <class T>
void check(const CrossEntropy<T>& c) {
  const char* op = "cross_entropy";
  check_matrix(op, "logits", c.logits, c.logits.rows, c.logits.cols);
  check_present(op, "targets", c.targets);
  check_present(op, "losses", c.losses);
  if (c.vocab < 1 || c.vocab > c.logits.cols) {
    fail("{}: vocabulary {} does not fit logits of {} columns", op, c.vocab, c.logits.cols);
  }
}

}  // namespace headloom
