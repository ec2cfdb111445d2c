#pragma once

#include <csignal>

namespace headloom {

/// While it lives, the first SIGINT or SIGTERM only sets a flag that the training loop asks for
/// between steps; a second one ends the process at once. A signal that was ignored before (a job in
/// the background) stays ignored, and handlers that a program had come back at the end.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The number of the signal that arrived, 0 if none did.
  static int signal_number();

 private:
  struct sigaction before_[2];
};

}  // namespace headloom
