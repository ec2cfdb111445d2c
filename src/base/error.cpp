#include "base/error.h"

#include <system_error>

namespace headloom {

std::string system_message(int error_number) {
  return std::generic_category().message(error_number);
}

}  // namespace headloom
