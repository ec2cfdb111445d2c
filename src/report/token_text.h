#pragma once

#include <string>
#include <vector>

#include "heads/targets.h"

namespace headloom {

/// A token as a page can show it: always UTF-8, whatever its bytes are.
struct TokenText {
  std::string text;    ///< bytes that are no whole character as \xNN
  std::string joined;  ///< the characters that it holds a part of, empty when it holds none
};

/// The tokens of one sequence. Shapes: ids [seq].
std::vector<TokenText> token_texts(const std::int32_t* ids, std::int64_t seq,
                                   const Tokenizer& tokenizer);

}  // namespace headloom
