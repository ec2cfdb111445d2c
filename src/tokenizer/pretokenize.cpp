#include "tokenizer/pretokenize.h"

#include <utf8proc.h>

#include <array>
#include <cstdint>

namespace headloom {
namespace {

enum class Class : std::uint8_t { kLetter, kNumber, kSpace, kOther };

/// Unicode's White_Space property. utf8proc's category alone would not do: it has no such property.
bool is_white_space(std::int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

Class classify(std::int32_t c) {
  if (is_white_space(c)) return Class::kSpace;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return Class::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Class::kNumber;
    default:
      return Class::kOther;
  }
}

std::array<Class, 128> ascii_classes() {
  std::array<Class, 128> table{};
  for (int c = 0; c < 128; ++c) table[static_cast<std::size_t>(c)] = classify(c);
  return table;
}

struct Character {
  Class kind;
  std::size_t length;
};

Character character_at(std::string_view text, std::size_t i) {
  static const std::array<Class, 128> kAscii = ascii_classes();
  const auto byte = static_cast<unsigned char>(text[i]);
  if (byte < 128) return {kAscii[byte], 1};
  const int length = utf8_length(text.substr(i));
  if (length == 0) return {Class::kOther, 1};
  std::int32_t code = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + i), length, &code);
  return {classify(code), static_cast<std::size_t>(length)};
}

std::size_t run_end(std::string_view text, std::size_t i, Class kind) {
  while (i < text.size()) {
    const Character c = character_at(text, i);
    if (c.kind != kind) break;
    i += c.length;
  }
  return i;
}

std::size_t contraction_length(std::string_view text) {
  for (const std::string_view known : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(known)) return known.size();
  }
  return 0;
}

}  // namespace

int utf8_length(std::string_view text, bool* incomplete) {
  if (incomplete != nullptr) *incomplete = false;
  if (text.empty()) return 0;
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const int length = lead >= 0xC2 && lead <= 0xDF   ? 2
                     : lead >= 0xE0 && lead <= 0xEF ? 3
                     : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                    : 0;
  if (length == 0) return 0;
  // The second byte's range excludes overlong forms, surrogates and values above U+10FFFF.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (int i = 1; i < length; ++i) {
    const auto place = static_cast<std::size_t>(i);
    if (place >= text.size()) {
      if (incomplete != nullptr) *incomplete = true;
      return 0;
    }
    if (at(place) < (i == 1 ? low : 0x80) || at(place) > (i == 1 ? high : 0xBF)) return 0;
  }
  return length;
}

std::size_t piece_end(std::string_view text, std::size_t begin) {
  if (text[begin] == '\'') {
    const std::size_t length = contraction_length(text.substr(begin, 3));
    if (length != 0) return begin + length;
  }
  const std::size_t word = text[begin] == ' ' ? begin + 1 : begin;
  if (word < text.size()) {
    const Class kind = character_at(text, word).kind;
    if (kind != Class::kSpace) return run_end(text, word, kind);
  }
  // Spaces: all of them at the end of the text, otherwise all but the last.
  std::size_t end = begin, last = begin;
  while (end < text.size()) {
    const Character c = character_at(text, end);
    if (c.kind != Class::kSpace) break;
    last = end;
    end += c.length;
  }
  return end == text.size() || last == begin ? end : last;
}

}  // namespace headloom
