#pragma once

#include <string>

namespace headloom {

/// Progress on stderr: on a terminal one line that is redrawn, elsewhere plain lines, and nothing
/// when quiet. It uses no colour, so NO_COLOR has nothing to turn off.
class Progress {
 public:
  explicit Progress(bool quiet = false);
  ~Progress();

  /// True where `status` redraws a line; false where every line stays (files, pipes).
  bool live() const { return live_; }
  /// Shows the line. On a terminal it replaces the last status; elsewhere it is printed as a line.
  void status(const std::string& line);
  /// Prints a line that stays.
  void note(const std::string& line);

 private:
  void clear();

  bool quiet_;
  bool live_;
  bool shown_ = false;
};

/// A bar of `width` cells, `fraction` of them filled.
std::string progress_bar(double fraction, int width);

/// "3 s", "4 min 10 s", "2 h 5 min".
std::string format_duration(double seconds);

/// "1,234,567"
std::string format_count(long long value);

}  // namespace headloom
