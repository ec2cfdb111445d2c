#include "report/token_text.h"

#include <fmt/core.h>
#include <utf8proc.h>

namespace headloom {

std::vector<TokenText> token_texts(const std::int32_t* ids, std::int64_t seq,
                                   const Tokenizer& tokenizer) {
  std::string bytes;
  std::vector<std::size_t> token;  // of each byte
  for (std::int64_t t = 0; t < seq; ++t) {
    bytes += tokenizer.token_bytes(ids[t]);
    token.resize(bytes.size(), static_cast<std::size_t>(t));
  }
  std::vector<TokenText> texts(static_cast<std::size_t>(seq));
  const auto escape = [&](std::size_t at) {
    texts[token[at]].text += fmt::format("\\x{:02X}", static_cast<unsigned char>(bytes[at]));
  };
  for (std::size_t at = 0; at < bytes.size();) {
    utf8proc_int32_t point = -1;
    const utf8proc_ssize_t size =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()) + at,
                         static_cast<utf8proc_ssize_t>(bytes.size() - at), &point);
    if (size < 1) {
      escape(at++);
      continue;
    }
    const std::size_t end = at + static_cast<std::size_t>(size);
    const std::string character = bytes.substr(at, end - at);
    if (token[at] == token[end - 1]) {
      texts[token[at]].text += character;
    } else {
      for (std::size_t i = at; i < end; ++i) {
        escape(i);
        if (i == at || token[i] != token[i - 1]) texts[token[i]].joined += character;
      }
    }
    at = end;
  }
  for (std::int64_t t = 0; t < seq; ++t) {
    if (ids[t] == tokenizer.end_of_text())
      texts[static_cast<std::size_t>(t)].text = "<end of text>";
  }
  return texts;
}

}  // namespace headloom
