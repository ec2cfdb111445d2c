#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace headloom {

/// A little language in which attention heads have something to specialise on, and its truth.
struct GeneratedCorpus {
  std::string text;
  std::string
      truth;  ///< JSON lines, one per sentence; offsets are bytes from the front of the text
};

/// Writes sentences of five kinds, each of which can be predicted only by looking at the right
/// place:
///   lists      nouns in random order, then the same again        (what followed this word before?)
///   brackets   three kinds, nested up to five deep, and quotes   (which one is open?)
///   stories    who gave what to whom, and who has it now         (which name, which thing?)
///   chants     two words in turn                                (what came before the last word?)
///   times      a marker at the start rules every verb after it   (which tense?)
/// The truth names, per sentence, the places that belong together:
///   {"kind":"list","first":[...],"again":[...]}             offsets of equal words, pairwise
///   {"kind":"brackets","pairs":[[open,close],...]}
///   {"kind":"story","mentions":[{"name":..,"at":[...]}],"answer":[word,source]}
///   {"kind":"chant","words":[...]}                          offsets of the words that take turns
///   {"kind":"time","tense":"past","marker":m,"verbs":[...]}
/// Determinism: the text depends on seed and size alone; a longer one begins with the shorter one.
class CorpusGenerator {
 public:
  explicit CorpusGenerator(std::uint64_t seed);
  ~CorpusGenerator();
  CorpusGenerator(const CorpusGenerator&) = delete;
  CorpusGenerator& operator=(const CorpusGenerator&) = delete;

  /// One paragraph of a few sentences, a line of text each. Offsets go on from call to call.
  GeneratedCorpus paragraph();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes at least `bytes` of text, ending with a whole paragraph, and the truth beside it as
/// `<text without extension>.truth.jsonl`. Returns the path of the truth.
std::filesystem::path write_corpus(std::uint64_t seed, std::int64_t bytes,
                                   const std::filesystem::path& text);

}  // namespace headloom
