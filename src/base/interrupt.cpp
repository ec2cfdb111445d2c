#include "base/interrupt.h"

#include <csignal>

namespace headloom {
namespace {

volatile std::sig_atomic_t g_signal = 0;

void on_signal(int number) {
  g_signal = number;
  std::signal(number, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  g_signal = 0;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int InterruptGuard::signal_number() {
  return g_signal;
}

}  // namespace headloom
