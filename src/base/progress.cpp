#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace headloom {

Progress::Progress(bool quiet) : quiet_(quiet), live_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (shown_) std::fputc('\n', stderr);
}

void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void Progress::status(const std::string& line) {
  if (quiet_) return;
  clear();
  std::fputs(line.c_str(), stderr);
  if (live_) {
    shown_ = true;
  } else {
    std::fputc('\n', stderr);
  }
  std::fflush(stderr);
}

void Progress::note(const std::string& line) {
  if (quiet_) return;
  clear();
  fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
}

std::string progress_bar(double fraction, int width) {
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
  return std::string(filled, '#') + std::string(width - filled, '.');
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "n/a";
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string format_count(long long value) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(i, 1, ',');
  if (value < 0) digits.insert(0, 1, '-');
  return digits;
}

}  // namespace headloom
