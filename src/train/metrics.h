#pragma once

#include <cstdio>
#include <filesystem>

#include "base/fields.h"

namespace headloom {

/// Appends JSON lines to a file, each flushed as it is written. Numbers that are not finite become
/// null, and the line gets "nonfinite": true.
class MetricsFile {
 public:
  /// Opens for appending, after dropping lines beyond `steps_done` that a crash may have left.
  /// With `echo` every line also goes to standard output.
  MetricsFile(const std::filesystem::path& path, std::int64_t steps_done, bool echo = false);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void write(Json line);

 private:
  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
  bool echo_ = false;
};

}  // namespace headloom
