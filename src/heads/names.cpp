#include "heads/names.h"

#include <utf8proc.h>

#include <unordered_set>

namespace headloom {
namespace {

/// A run of letters, and the tokens that hold it.
struct Word {
  std::string letters;
  bool capital = false;
  int characters = 0;
  std::int32_t first = 0, last = 0;
};

/// The text of one sequence, and to each byte its token.
struct SequenceText {
  std::string bytes;
  std::vector<std::int32_t> token;

  SequenceText(const Sequences& s, std::int64_t b, const Tokenizer& tokenizer) {
    for (std::int64_t t = 0; t < s.seq; ++t) {
      bytes += tokenizer.token_bytes(s.at(b, t));
      token.resize(bytes.size(), static_cast<std::int32_t>(t));
    }
  }
};

utf8proc_int32_t code_point(const std::string& text, std::size_t at, utf8proc_ssize_t* size) {
  utf8proc_int32_t point = -1;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
  *size = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &point);
  if (*size < 1) *size = 1;  // half a character: a byte of its own, and no letter
  return point;
}

bool is_letter(utf8proc_int32_t point) {
  if (point < 0) return false;
  const utf8proc_category_t category = utf8proc_category(point);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

std::vector<Word> words_of(const SequenceText& text) {
  std::vector<Word> words;
  bool inside = false;
  utf8proc_ssize_t size = 1;
  for (std::size_t at = 0; at < text.bytes.size(); at += static_cast<std::size_t>(size)) {
    const utf8proc_int32_t point = code_point(text.bytes, at, &size);
    if (is_letter(point)) {
      if (!inside) {
        words.push_back({.letters = {},
                         .capital = utf8proc_category(point) == UTF8PROC_CATEGORY_LU,
                         .first = text.token[at]});
      }
      words.back().letters.append(text.bytes, at, static_cast<std::size_t>(size));
      words.back().characters += 1;
      words.back().last = text.token[at + static_cast<std::size_t>(size) - 1];
    }
    inside = is_letter(point);
  }
  return words;
}

/// The word with a small first letter.
std::string in_small(const std::string& word) {
  utf8proc_ssize_t size = 1;
  const utf8proc_int32_t point = code_point(word, 0, &size);
  utf8proc_uint8_t small[4];
  const utf8proc_ssize_t length = utf8proc_encode_char(utf8proc_tolower(point), small);
  return std::string(small, small + length) + word.substr(static_cast<std::size_t>(size));
}

}  // namespace

std::vector<std::vector<Mention>> find_names(const Sequences& s, const Tokenizer& tokenizer) {
  std::vector<std::vector<Word>> words;
  std::unordered_set<std::string> small;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    words.push_back(words_of(SequenceText(s, b, tokenizer)));
    for (const Word& word : words.back()) {
      if (!word.capital) small.insert(word.letters);
    }
  }
  std::vector<std::vector<Mention>> names(words.size());
  for (std::size_t b = 0; b < words.size(); ++b) {
    for (const Word& word : words[b]) {
      if (word.capital && word.characters > 1 && !small.contains(in_small(word.letters))) {
        names[b].push_back({word.letters, word.first, word.last});
      }
    }
  }
  return names;
}

std::vector<Targets> name_targets(const Sequences& s,
                                  const std::vector<std::vector<Mention>>& names) {
  const auto add = [](const Mention& m, std::vector<std::int32_t>& keys) {
    for (std::int32_t t = m.first; t <= m.last; ++t) keys.push_back(t);
  };
  std::vector<bool> name_next(s.ids.size());
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (const Mention& m : names[static_cast<std::size_t>(b)]) {
      if (m.first > 0) name_next[static_cast<std::size_t>(b * s.seq + m.first - 1)] = true;
    }
  }
  Targets last = collect_targets("last name", s, [&](std::int64_t b, std::int64_t t, auto& keys) {
    const Mention* latest = nullptr;
    for (const Mention& m : names[static_cast<std::size_t>(b)]) {
      if (m.last < t) latest = &m;
    }
    if (latest != nullptr) add(*latest, keys);
  });
  last.judged = name_next;
  Targets repeated =
      collect_targets("repeated name", s, [&](std::int64_t b, std::int64_t t, auto& keys) {
        const std::vector<Mention>& all = names[static_cast<std::size_t>(b)];
        for (const Mention& next : all) {
          if (next.first != t + 1) continue;
          for (const Mention& m : all) {
            if (m.last <= t && m.name == next.name) add(m, keys);
          }
        }
      });
  return {last, repeated};
}

}  // namespace headloom
