#pragma once

#include <cstddef>
#include <string_view>

namespace headloom {

/// End of the piece that starts at `begin`, by GPT-2's splitting rule; merges never cross pieces:
///   's 't 're 've 'm 'll 'd;  optional space + letters;  optional space + digits;
///   optional space + other non-space;  spaces, where the last one before a word belongs to the
///   word.
/// Letters are Unicode L*, digits N*, space is Unicode White_Space. Bytes that are not UTF-8 count
/// as "other". Units: begin < text.size(). Linear in the length of the piece. Source: Radford et
/// al. 2019, section 2.2.
std::size_t piece_end(std::string_view text, std::size_t begin);

/// Length of the UTF-8 character at the front of `text`: 1 to 4, or 0 when the bytes are no valid
/// character. `incomplete` tells whether more bytes could still make it valid.
int utf8_length(std::string_view text, bool* incomplete = nullptr);

}  // namespace headloom
