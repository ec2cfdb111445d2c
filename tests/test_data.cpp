// From files to batches: reading, the token cache, splits, permutations, and the generated corpus.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/fields.h"
#include "base/temporary.h"
#include "data/batches.h"
#include "data/corpus_generator.h"
#include "data/corpus_reader.h"
#include "data/token_cache.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

/// A cache of the bytes of `text`, one token a byte.
struct ByteCache {
  TemporaryFolder folder;
  Tokenizer tokenizer = Tokenizer::bytes();
  fs::path text_path = folder.path() / "text.txt", cache_path = folder.path() / "tokens.bin";

  explicit ByteCache(std::string_view text) {
    write_file_atomic(text_path, text);
    TokenCache::build(cache_path, {{text_path}, ""}, tokenizer, 42);
  }
  TokenCache open() const { return TokenCache(cache_path, tokenizer.vocab_size()); }
};

std::vector<std::string> documents(const Corpus& corpus) {
  std::vector<std::string> found(1);
  for_each_part(corpus, [&](std::string_view part, bool last) {
    found.back() += part;
    if (last) found.emplace_back();
  });
  found.pop_back();
  return found;
}

TEST(Corpus, InputAsPeopleHaveIt) {
  const TemporaryFolder folder;
  const auto file = [&](const char* name, std::string_view content) {
    write_file_atomic(folder.path() / name, content);
    return Corpus{{folder.path() / name}, "text"};
  };
  using Documents = std::vector<std::string>;
  EXPECT_EQ(documents(file("bom.txt", "\xEF\xBB\xBFhello")), Documents{"hello"});
  EXPECT_EQ(documents(file("crlf.txt", "a\r\nb\rc\n")), Documents{"a\nb\rc\n"});
  EXPECT_EQ(documents(file("invalid.txt", "\xFF\xFE a")), Documents{"\xFF\xFE a"});
  EXPECT_EQ(documents(file("empty.txt", "")), Documents{});
  EXPECT_EQ(documents(file("x.jsonl", "{\"text\": \"one\"}\n\n{\"id\": 1, \"text\": \"two\"}")),
            (Documents{"one", "two"}));
  EXPECT_EQ(corpus_files({(folder.path() / "*.txt").string()}).size(), 4U);
  EXPECT_THROW(corpus_files({(folder.path() / "*.md").string()}), Error);
  try {
    documents(file("bad.jsonl", "{\"text\": \"one\"}\n{\"body\": \"two\"}"));
    FAIL() << "an object without the field was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("bad.jsonl:2"), std::string::npos) << error.what();
  }
}

TEST(Corpus, LongTextsComeInPartsThatPiecesDoNotCross) {
  const TemporaryFolder folder;
  const Tokenizer bytes = Tokenizer::bytes();
  std::string chinese, words, endless(3'000'000, 'x');
  while (chinese.size() < 3'000'000) chinese += "\u4e2d\u6587\u3002";
  while (words.size() < 3'000'000) words += "don't  stop\n\n12 times ";
  for (const std::string& text : {chinese, words, endless}) {
    write_file_atomic(folder.path() / "text", text);
    std::string whole;
    int parts = 0;
    for_each_part({{folder.path() / "text"}, ""}, [&](std::string_view part, bool last) {
      EXPECT_LE(part.size(), std::size_t{2} << 20);
      EXPECT_EQ(last, whole.size() + part.size() == text.size());
      whole += part;
      ++parts;
    });
    EXPECT_EQ(whole, text);
    EXPECT_GE(parts, 2);
  }
}

TEST(Corpus, FoldersAreReadInOrderWithoutHiddenFiles) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "b");
  fs::create_directories(folder.path() / ".git");
  write_file_atomic(folder.path() / "b" / "two.txt", "2");
  write_file_atomic(folder.path() / "a.txt", "1");
  write_file_atomic(folder.path() / ".hidden", "x");
  write_file_atomic(folder.path() / ".git" / "config", "x");
  write_file_atomic(folder.path() / "empty.txt", "");
  const auto files = corpus_files({folder.path().string()});
  EXPECT_EQ(documents({files, ""}), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(corpus_bytes(files), 2);
  const std::uint64_t before = corpus_fingerprint({files, ""});
  write_file_atomic(folder.path() / "a.txt", "3");
  EXPECT_NE(corpus_fingerprint({files, ""}), before);
  EXPECT_THROW(corpus_files({(folder.path() / "none").string()}), Error);
  EXPECT_THROW(corpus_files({(folder.path() / "empty.txt").string()}), Error);
}

TEST(TokenCache, HoldsEveryTokenAndEndOfText) {
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += static_cast<char>(i * 31 % 251);
  const ByteCache cache(text + std::string(2'000'000, 'x') + " end of it");
  const TokenCache tokens = cache.open();
  ASSERT_EQ(tokens.size(), 300'000 + 2'000'000 + 10 + 1);
  for (std::int64_t i = 0; i < 300'000; ++i) {
    ASSERT_EQ(tokens[i], cache.tokenizer.byte_token(static_cast<unsigned char>(text[i])));
  }
  EXPECT_EQ(tokens[tokens.size() - 1], cache.tokenizer.end_of_text());
  EXPECT_TRUE(TokenCache::is_current(cache.cache_path, 42));
  EXPECT_FALSE(TokenCache::is_current(cache.cache_path, 43));
}

TEST(TokenCache, PartsGiveTheSameTokensAsTheWhole) {
  std::string text;
  while (text.size() < 2'500'000) text += "some words, and  others\n don't \xC3\xA9t\xC3\xA9 ";
  const ByteCache folder(text);
  BpeTrainer trainer;
  trainer.add(text);
  const Tokenizer tokenizer = trainer.train(300);
  std::vector<std::int32_t> whole;
  Encoder(tokenizer).encode(text, whole);
  TokenCache::build(folder.cache_path, {{folder.text_path}, ""}, tokenizer, 1);
  const TokenCache tokens(folder.cache_path, tokenizer.vocab_size());
  ASSERT_EQ(tokens.size(), static_cast<std::int64_t>(whole.size()) + 1);
  for (std::size_t i = 0; i < whole.size(); ++i)
    ASSERT_EQ(tokens[static_cast<std::int64_t>(i)], whole[i]);
}

TEST(TokenCache, DamageIsRefusedWithThePlace) {
  const ByteCache cache("hello world");
  const std::string good = read_file(cache.cache_path);
  const auto refused = [&](const std::string& bytes) -> std::string {
    write_file_atomic(cache.cache_path, bytes);
    try {
      cache.open();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused(good), "");
  EXPECT_NE(refused(""), "");
  EXPECT_NE(refused(good.substr(0, good.size() - 1)), "");
  EXPECT_NE(refused(good + "x"), "");
  std::string other = good;
  other[0] = 'X';
  EXPECT_NE(refused(other), "");
  std::string foreign = good;
  foreign[52] = foreign[53] = '\xFF';  // the third token becomes 65535
  EXPECT_NE(refused(foreign).find("token id 65535 at offset 52 is outside the vocabulary of 257"),
            std::string::npos)
      << refused(foreign);
}

TEST(Split, HoldsOutEvenlyAndLosesNothing) {
  for (const std::int64_t tokens : {30, 1000, 12345, 1'000'000}) {
    for (const double fraction : {0.01, 0.05, 0.3}) {
      const CorpusSplit split = split_corpus(tokens, 9, fraction);
      std::vector<Segment> all = split.train;
      all.insert(all.end(), split.validation.begin(), split.validation.end());
      std::sort(all.begin(), all.end(), [](const Segment& a, const Segment& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
      });
      std::int64_t end = 0;
      for (const Segment& segment : all) {
        ASSERT_EQ(segment.begin, end);
        end = segment.end;
      }
      EXPECT_EQ(end, tokens);
      EXPECT_FALSE(window_starts(split.validation, 9, 0).empty());
      EXPECT_FALSE(window_starts(split.train, 9, 0).empty());
    }
  }
  EXPECT_TRUE(split_corpus(100, 9, 0.0).validation.empty());
  try {
    split_corpus(20, 9, 0.1);
    FAIL() << "a corpus shorter than its windows was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("needs at least 30 tokens"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("it has 20"), std::string::npos);
  }
}

TEST(Batches, EachWindowOncePerEpochAndTargetsAreTheNextTokens) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i);
  const ByteCache cache(text);
  const TokenCache tokens = cache.open();
  BatchSource source(tokens, {{0, tokens.size()}}, 10, 7);
  std::vector<std::int32_t> inputs(10), targets(10);
  std::set<std::int32_t> firsts;
  std::vector<std::int32_t> order;
  while (source.epoch() == 0) {
    source.next(1, inputs.data(), targets.data());
    if (source.epoch() > 0) break;
    for (int t = 0; t + 1 < 10; ++t) ASSERT_EQ(targets[t], inputs[t + 1]);
    EXPECT_TRUE(firsts.insert(inputs[0]).second) << "a window came twice";
    order.push_back(inputs[0]);
  }
  EXPECT_GE(order.size(), 19U);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

TEST(Batches, PositionIsAllThereIsToSave) {
  std::string text(5000, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i % 249);
  const ByteCache cache(text);
  const TokenCache tokens = cache.open();
  BatchSource one(tokens, {{0, tokens.size()}}, 16, 7), two(tokens, {{0, tokens.size()}}, 16, 7);
  std::vector<std::int32_t> a(64), b(64), targets(64);
  for (int i = 0; i < 100; ++i) one.next(4, a.data(), targets.data());
  EXPECT_GT(one.epoch(), 0);
  two.seek(one.epoch(), one.cursor());
  for (int i = 0; i < 100; ++i) {
    one.next(4, a.data(), targets.data());
    two.next(4, b.data(), targets.data());
    ASSERT_EQ(a, b);
  }
}

TEST(Batches, UnigramEntropyOfTwoEquallyFrequentTokens) {
  const ByteCache cache("ab");  // and end-of-text: three tokens
  EXPECT_NEAR(unigram_entropy(cache.open(), 257), std::log(3.0), 1e-12);
}

/// The truth about each sentence, checked against the text itself.
class Truth {
 public:
  explicit Truth(const std::string& text) : text_(text) {}

  void check(const Json& facts) const {
    const std::string kind = facts["kind"];
    if (kind == "list") {
      ASSERT_EQ(facts["first"].size(), facts["again"].size());
      for (std::size_t i = 0; i < facts["first"].size(); ++i) {
        EXPECT_EQ(word(facts["first"][i]), word(facts["again"][i]));
      }
    } else if (kind == "brackets") {
      for (const Json& pair : facts["pairs"]) {
        const std::string both = word(pair[0]) + word(pair[1]);
        EXPECT_TRUE(both == "()" || both == "[]" || both == "{}" || both == "\"\"") << both;
      }
    } else if (kind == "story") {
      for (const Json& mention : facts["mentions"]) {
        for (const Json& at : mention["at"]) EXPECT_EQ(word(at), mention["name"]);
      }
      EXPECT_EQ(word(facts["answer"][0]), word(facts["answer"][1]));
      EXPECT_EQ(word(facts["thing"][0]), word(facts["thing"][1]));
    } else if (kind == "chant") {
      for (std::size_t i = 2; i < facts["words"].size(); ++i) {
        EXPECT_EQ(word(facts["words"][i]), word(facts["words"][i - 2]));
      }
    } else {
      ASSERT_EQ(kind, "time");
      const std::map<std::string, std::string> tenses = {
          {"yesterday", "past"}, {"today", "present"}, {"tomorrow", "future"}};
      EXPECT_EQ(tenses.at(word(facts["marker"])), facts["tense"]);
      EXPECT_FALSE(facts["verbs"].empty());
    }
  }

 private:
  std::string word(const Json& offset) const {
    const auto begin = offset.get<std::size_t>();
    return text_.substr(begin, text_.find_first_of(" \n", begin) - begin);
  }
  const std::string& text_;
};

TEST(CorpusGenerator, TheTruthIsTrueAndRepeatable) {
  const TemporaryFolder folder;
  const auto make = [&](std::uint64_t seed, std::int64_t bytes, const char* name) {
    write_corpus(seed, bytes, folder.path() / name);
    return read_file(folder.path() / name);
  };
  const std::string text = make(5, 100'000, "a.txt");
  EXPECT_GE(text.size(), 100'000U);
  EXPECT_EQ(text, make(5, 100'000, "b.txt"));
  EXPECT_TRUE(make(5, 200'000, "c.txt").starts_with(text));
  EXPECT_NE(text, make(6, 100'000, "d.txt"));
  const std::string truth = read_file(folder.path() / "a.truth.jsonl");
  std::set<std::string> kinds;
  std::int64_t lines = 0;
  for (std::size_t begin = 0; begin < truth.size(); ++lines) {
    const std::size_t end = truth.find('\n', begin);
    const Json facts = Json::parse(truth.substr(begin, end - begin));
    begin = end + 1;
    kinds.insert(facts["kind"].get<std::string>());
    Truth(text).check(facts);
  }
  EXPECT_EQ(kinds.size(), 5U);
  EXPECT_GT(lines, 500);
}

}  // namespace
}  // namespace headloom
