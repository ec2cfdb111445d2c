#include "train/metrics.h"

#include <cerrno>
#include <cmath>

#include "base/error.h"
#include "base/files.h"

namespace headloom {
namespace {

/// The complete lines of a metrics file up to a step: a resumed run then holds each step once.
std::string lines_until(const std::string& text, std::int64_t steps_done) {
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == text.npos) break;
    const std::string line = text.substr(begin, end - begin);
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_discarded() && json.value("step", std::int64_t{0}) <= steps_done) {
      kept += line + "\n";
    }
    begin = end + 1;
  }
  return kept;
}

void write_line(std::FILE* file, const std::string& name, const std::string& line) {
  if (std::fwrite(line.data(), 1, line.size(), file) != line.size() || std::fflush(file) != 0) {
    fail("cannot write {}: {}", name, system_message(errno));
  }
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, std::int64_t steps_done, bool echo)
    : path_(path), echo_(echo) {
  if (std::filesystem::exists(path)) {
    const std::string text = read_file(path), kept = lines_until(text, steps_done);
    if (kept != text) write_file_atomic(path, kept);
  }
  file_ = std::fopen(path.c_str(), "a");
  if (file_ == nullptr) fail("cannot open {}: {}", path.string(), system_message(errno));
}

MetricsFile::~MetricsFile() {
  std::fclose(file_);
}

void MetricsFile::write(Json line) {
  bool nonfinite = false;
  for (auto& [key, value] : line.items()) {
    if (value.is_number_float() && !std::isfinite(value.get<double>())) {
      value = nullptr;
      nonfinite = true;
    }
  }
  if (nonfinite) line["nonfinite"] = true;
  // Samples may hold bytes that are no UTF-8; a line must be JSON all the same.
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  write_line(file_, path_.string(), text);
  if (echo_) write_line(stdout, "standard output", text);
}

}  // namespace headloom
