// Byte-level BPE: GPT-2's splitting, exact round trips, files of other programs, speed on long
// pieces.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/rng.h"
#include "base/temporary.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/tokenizer.h"

namespace headloom {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces(std::string_view text) {
  Pieces list;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(text, begin);
    list.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return list;
}

std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  Encoder(tokenizer).encode(text, ids);
  return ids;
}

std::string random_bytes(std::uint64_t seed, std::size_t size) {
  Rng rng(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(rng.below(256));
  return text;
}

const char* const kText =
    "the loom weaves the threads; the threads don't weave the loom. Ängste, 3 öre, naïve façade! "
    "the weaver weaves 12 threads and the 12 threads weave.\n\n  the end\n";

Tokenizer trained(std::int32_t size) {
  BpeTrainer trainer;
  trainer.add(kText);
  return trainer.train(size);
}

TEST(Pretokenize, SplitsAsGpt2Does) {
  EXPECT_EQ(pieces("Hello world"), (Pieces{"Hello", " world"}));
  EXPECT_EQ(pieces("I'm we'll they've 'sx"),
            (Pieces{"I", "'m", " we", "'ll", " they", "'ve", " '", "sx"}));
  EXPECT_EQ(pieces("DON'T don't"), (Pieces{"DON", "'", "T", " don", "'t"}));
  EXPECT_EQ(pieces("a  b   c"), (Pieces{"a", " ", " b", "  ", " c"}));
  EXPECT_EQ(pieces("x\n\ny \n"), (Pieces{"x", "\n", "\n", "y", " \n"}));
  EXPECT_EQ(pieces("x = 10,5%"), (Pieces{"x", " =", " 10", ",", "5", "%"}));
  EXPECT_EQ(pieces("naïve über ١٢ 日本語。"), (Pieces{"naïve", " über", " ١٢", " 日本語", "。"}));
  EXPECT_EQ(pieces("a\u00A0b"), (Pieces{"a", "\u00A0", "b"}));  // no-break space: not U+0020
  EXPECT_EQ(pieces("a\u180Eb"), (Pieces{"a", "\u180E", "b"}));  // no White_Space since Unicode 6.3
  EXPECT_EQ(pieces("   "), (Pieces{"   "}));
  EXPECT_EQ(pieces("a\xFF\xC3"), (Pieces{"a", "\xFF\xC3"}));
}

TEST(Utf8, AcceptsExactlyWhatIsValid) {
  EXPECT_EQ(utf8_length("a"), 1);
  EXPECT_EQ(utf8_length("é"), 2);
  EXPECT_EQ(utf8_length("€"), 3);
  EXPECT_EQ(utf8_length("\xF0\x9F\x98\x80"), 4);
  EXPECT_EQ(utf8_length("\xC0\x80"), 0);          // overlong
  EXPECT_EQ(utf8_length("\xE0\x80\x80"), 0);      // overlong
  EXPECT_EQ(utf8_length("\xED\xA0\x80"), 0);      // surrogate
  EXPECT_EQ(utf8_length("\xF4\x90\x80\x80"), 0);  // above U+10FFFF
  bool incomplete = false;
  EXPECT_EQ(utf8_length("\xE2\x82", &incomplete), 0);
  EXPECT_TRUE(incomplete);
  EXPECT_EQ(utf8_length("\xE2x", &incomplete), 0);
  EXPECT_FALSE(incomplete);
}

TEST(Tokenizer, EveryByteStringSurvives) {
  const Tokenizer bpe = trained(300), bytes = Tokenizer::bytes();
  EXPECT_EQ(bytes.vocab_size(), 257);
  for (const Tokenizer* tokenizer : {&bpe, &bytes}) {
    EXPECT_EQ(tokenizer->decode(encode(*tokenizer, kText)), kText);
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const std::string text = random_bytes(seed, seed * 7);
      EXPECT_EQ(tokenizer->decode(encode(*tokenizer, text)), text);
    }
  }
  EXPECT_LT(encode(bpe, kText).size(), encode(bytes, kText).size() * 2 / 3);
}

TEST(Tokenizer, TrainingFindsTheFrequentPairsFirst) {
  // "ab" five times, "cd" three times: the first two merges, whatever the order of the text.
  BpeTrainer trainer;
  trainer.add("cd ab ab cd ab ab cd ab");
  const Tokenizer tokenizer = trainer.train(259);
  EXPECT_EQ(tokenizer.vocab_size(), 259);
  EXPECT_EQ(encode(tokenizer, "ab").size(), 1U);
  EXPECT_EQ(tokenizer.token_bytes(256), "ab");
  EXPECT_THROW(trainer.train(256), Error);
  EXPECT_LT(trainer.train(5000).vocab_size(), 300);  // nothing left to merge
}

TEST(Tokenizer, SpecialTokensInTextAreText) {
  const Tokenizer tokenizer = trained(300);
  for (const std::int32_t id : encode(tokenizer, "a<|endoftext|>b")) {
    EXPECT_NE(id, tokenizer.end_of_text());
  }
}

TEST(Tokenizer, LongPiecesDoNotTakeQuadraticTime) {
  // Four megabytes of one letter: half a second; at quadratic cost, hours, which CTest's limit
  // ends.
  const std::string text(4'000'000, 'a');
  BpeTrainer trainer;
  trainer.add(text);
  const Tokenizer tokenizer = trainer.train(266);
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, text)), text);
}

TEST(Tokenizer, FilesComeBackTheSame) {
  const TemporaryFolder folder;
  const Tokenizer tokenizer = trained(300);
  tokenizer.save(folder.path() / "tokenizer.json");
  const Tokenizer read = Tokenizer::load(folder.path() / "tokenizer.json");
  EXPECT_EQ(read.fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(read.end_of_text(), tokenizer.end_of_text());
  EXPECT_EQ(encode(read, kText), encode(tokenizer, kText));
  EXPECT_NE(read.fingerprint(), trained(299).fingerprint());
}

/// A vocabulary of all bytes, "th" and "the", by GPT-2's names, as other programs write it.
std::string vocabulary(const char* added) {
  const Tokenizer bytes = Tokenizer::bytes();
  const TemporaryFolder folder;
  bytes.save(folder.path() / "t.json");
  std::string json = read_file(folder.path() / "t.json");
  const std::size_t begin = json.find("\"vocab\"");
  std::string vocab =
      json.substr(json.find('{', begin), json.find('}', begin) - json.find('{', begin));
  // The tokens themselves contain braces: cut at the last entry instead.
  vocab = json.substr(json.find('{', begin));
  vocab = vocab.substr(0, vocab.find("\"<|endoftext|>\""));
  return vocab + added + "}";
}

TEST(Tokenizer, ReadsBothFormsOfMergesAndTheOldFiles) {
  const std::string vocab = vocabulary("\"th\": 256, \"the\": 257, \"<|endoftext|>\": 258");
  const TemporaryFolder folder;
  const auto json = [&](const char* merges) {
    write_file_atomic(
        folder.path() / "tokenizer.json",
        R"({"model": {"type": "BPE", "vocab": )" + vocab + ", \"merges\": " + merges + "}}");
    return Tokenizer::load(folder.path() / "tokenizer.json");
  };
  const Tokenizer strings = json(R"(["t h", "th e"])"),
                  pairs = json(R"([["t", "h"], ["th", "e"]])");
  EXPECT_EQ(strings.fingerprint(), pairs.fingerprint());
  EXPECT_EQ(encode(strings, "the"), (std::vector<std::int32_t>{257}));
  std::filesystem::remove(folder.path() / "tokenizer.json");
  write_file_atomic(folder.path() / "vocab.json", vocab);
  write_file_atomic(folder.path() / "merges.txt", "#version: 0.2\nt h\nth e\n");
  EXPECT_EQ(Tokenizer::load(folder.path()).fingerprint(), pairs.fingerprint());
  write_file_atomic(folder.path() / "merges.txt", "t h\nth x\n");
  try {
    Tokenizer::load(folder.path());
    FAIL() << "a merge into an unknown token was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("needs the token thx"), std::string::npos)
        << error.what();
  }
}

TEST(Tokenizer, TwoTokensCannotShareAnId) {
  // Found by fuzzing: an end-of-text with the id of a letter decoded that letter to nothing.
  const TemporaryFolder folder;
  const auto path = folder.path() / "tokenizer.json";
  for (const char* added : {"\"th\": 255, \"<|endoftext|>\": 256", "\"<|endoftext|>\": 5"}) {
    write_file_atomic(
        path, R"({"model": {"type": "BPE", "vocab": )" + vocabulary(added) + R"(, "merges": []}})");
    EXPECT_THROW(Tokenizer::load(path), Error) << added;
  }
  write_file_atomic(
      path,
      R"({"added_tokens": [{"id": 7, "content": "<|endoftext|>"}], "model": {"type": "BPE", "vocab": )" +
          vocabulary("\"th\": 256") + R"(, "merges": []}})");
  EXPECT_THROW(Tokenizer::load(path), Error);
  // Found by fuzzing: an id beyond every integer.
  for (const char* id : {"1e100", "256.5", "\"256\""}) {
    write_file_atomic(
        path, fmt::format(R"({{"added_tokens": [{{"id": {}, "content": "<|endoftext|>"}}], )", id) +
                  R"("model": {"type": "BPE", "vocab": )" + vocabulary("\"th\": 256") +
                  R"(, "merges": []}})");
    EXPECT_THROW(Tokenizer::load(path), Error) << id;
  }
}

TEST(Tokenizer, DamagedFilesAreRefused) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tokenizer.json";
  for (const char* content : {"", "{", "[]", "{}", R"({"model": {"type": "WordPiece"}})",
                              R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})",
                              R"({"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}})",
                              R"({"model": {"type": "BPE", "vocab": {"a": "x"}, "merges": []}})"}) {
    write_file_atomic(path, content);
    EXPECT_THROW(Tokenizer::load(path), Error) << content;
  }
}

TEST(StreamDecoder, HoldsCharactersBackUntilTheyAreWhole) {
  const Tokenizer bytes = Tokenizer::bytes();
  StreamDecoder stream(bytes);
  const std::string text = "a\xE2\x82\xAC!";
  std::vector<std::string> parts;
  for (const char byte : text)
    parts.push_back(stream.add(bytes.byte_token(static_cast<unsigned char>(byte))));
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "", "", "\xE2\x82\xAC", "!"}));
  EXPECT_EQ(stream.add(bytes.byte_token(0xE2)), "");
  EXPECT_EQ(stream.finish(), "\xE2");
}

}  // namespace
}  // namespace headloom
