#pragma once

#include <stdexcept>
#include <string>

namespace headloom {

/// What went wrong; the value is the exit code of the command line program.
enum class ErrorKind {
  kFailed = 1,    ///< input, file system or device trouble
  kUsage = 2,     ///< a wrong flag, config key or config value
  kDiverged = 3,  ///< a loss or gradient became non-finite
};

/// The only exception type of the library. `what()` is one sentence that names the thing (file,
/// offset, key, value) and, where one exists, what would work.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace headloom
