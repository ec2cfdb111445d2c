// Any bytes are a tokenizer.json or a headloom::Error; a good one encodes and decodes without loss.
#include <cstdlib>

#include "base/error.h"
#include "memory_file.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const headloom::MemoryFile bytes(data, size);
  if (!bytes.ok()) return 0;
  try {
    const headloom::Tokenizer tokenizer = headloom::Tokenizer::load(bytes.path());
    const std::string text = "the loom weaves \xC3\xA9 12 threads\n";
    std::vector<std::int32_t> ids;
    headloom::Encoder(tokenizer).encode(text, ids);
    if (tokenizer.decode(ids) != text) std::abort();
  } catch (const headloom::Error&) {
    return 0;
  }
  return 0;
}
