#pragma once

#include <fmt/format.h>

#include "headloom/error.h"

namespace headloom {

/// Throws Error{kFailed} with a formatted message.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::kFailed, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error{kUsage} with a formatted message.
template <class... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::kUsage, fmt::format(format, std::forward<Args>(args)...));
}

/// Describes errno, as in "No space left on device".
std::string system_message(int error_number);

}  // namespace headloom
