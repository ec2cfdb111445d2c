// Any bytes are a config.toml or a headloom::Error; a good one survives being written and read
// again.
#include <cstdlib>

#include "base/error.h"
#include "memory_file.h"
#include "train/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const headloom::MemoryFile bytes(data, size);
  if (!bytes.ok()) return 0;
  try {
    const headloom::RunConfig config = headloom::read_run_config(bytes.path());
    const headloom::Json json = headloom::run_config_to_json(config);
    headloom::RunConfig copy;
    headloom::run_config_from_json(copy, headloom::parse_toml(headloom::to_toml(json), "copy"));
    if (headloom::run_config_to_json(copy) != json) std::abort();
  } catch (const headloom::Error&) {
    return 0;
  }
  return 0;
}
