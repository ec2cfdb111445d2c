// Any bytes are a safetensors file or a headloom::Error; every tensor of a good file can be read.
#include "base/error.h"
#include "formats/safetensors.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const headloom::MemoryFile bytes(data, size);
  if (!bytes.ok()) return 0;
  try {
    const headloom::SafetensorsFile file(bytes.path());
    unsigned sum = 0;
    for (const auto& [name, tensor] : file.tensors()) {
      for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
    }
    volatile unsigned sink = sum;
    (void)sink;
  } catch (const headloom::Error&) {
    return 0;
  }
  return 0;
}
