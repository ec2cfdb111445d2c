#pragma once

namespace headloom {

/// While it lives, the first SIGINT or SIGTERM only sets a flag that the training loop asks for
/// between steps; a second one ends the process at once, as it would without us.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The number of the signal that arrived, 0 if none did.
  static int signal_number();
};

}  // namespace headloom
