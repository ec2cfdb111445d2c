#pragma once

#include <array>
#include <string>
#include <string_view>

/// GPT-2's alphabet: each byte as a printable Unicode character, so that tokens can be JSON
/// strings. Printable Latin-1 stands for itself; the other 68 bytes, in order, are U+0100, U+0101,
/// ...
namespace headloom {

/// The bytes in the order of their token ids: the printable ones first.
std::array<unsigned char, 256> byte_order();

/// Bytes as alphabet characters, in UTF-8.
std::string to_alphabet(std::string_view bytes);

/// The bytes behind alphabet characters. Returns false when `text` has a character outside it.
bool from_alphabet(std::string_view text, std::string* bytes);

}  // namespace headloom
