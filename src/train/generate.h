#pragma once

#include <functional>
#include <string>

#include "model/decode.h"
#include "model/sampler.h"
#include "tokenizer/tokenizer.h"

namespace headloom {

/// What to write and when to stop.
struct GenerateConfig {
  std::string prompt;
  std::int64_t tokens = 200;
  std::uint64_t seed = 1;
  std::string stop;  ///< stops before this text appears; empty: only the number of tokens stops
};

/// Continues a prompt, handing out text as it becomes certain; whole characters only. When the
/// context is full, the newest half of it is read again and the text goes on. End-of-text ends the
/// text. Errors: kUsage when the prompt alone fills the context, saying how long it is.
void generate(Decoder& decoder, const Tokenizer& tokenizer, const SamplerConfig& sampler,
              const GenerateConfig& config, const std::function<void(std::string_view)>& emit);

}  // namespace headloom
