#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/decode.h"
#include "model/sampler.h"
#include "tokenizer/tokenizer.h"

namespace headloom {

/// Share of the runs of four tokens that came before in the same text: 0 when nothing repeats, near
/// 1 for a loop. 0 for fewer than four tokens.
double repeated_share(std::span<const std::int32_t> ids);

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
std::vector<std::int32_t> generate(Decoder& decoder, const Tokenizer& tokenizer,
                                   const SamplerConfig& sampler, const GenerateConfig& config,
                                   const std::function<void(std::string_view)>& emit);

}  // namespace headloom
