// Any bytes are a corpus: as text they come through, as JSON lines they are documents or a
// headloom::Error.
#include <fstream>

#include "base/error.h"
#include "base/temporary.h"
#include "data/corpus_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const headloom::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "x.jsonl";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    std::size_t bytes = 0;
    headloom::for_each_part({{path}, "text"},
                            [&](std::string_view part, bool) { bytes += part.size(); });
    volatile std::size_t sink = bytes;
    (void)sink;
  } catch (const headloom::Error&) {
    return 0;
  }
  return 0;
}
