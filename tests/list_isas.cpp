// Prints the instruction sets that this machine can run, one a line.
#include <fmt/core.h>

#include "ops/backend.h"

int main() {
  for (const std::string& name : headloom::available_isas()) fmt::print("{}\n", name);
}
