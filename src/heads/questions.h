#pragma once

#include <filesystem>
#include <string>

#include "heads/head_scores.h"
#include "train/loaded_model.h"

namespace headloom {

/// What heads are examined on.
struct QuestionRequest {
  std::string text;             ///< file or folder; empty: what the run holds out
  std::int64_t sequences = 64;  ///< at most
  std::int64_t context = 0;     ///< tokens in each; 0: the model's, at most 256
  std::uint64_t seed = 1;       ///< of random tokens
};

/// Two questions: every pattern that can be found in the text, and induction on random tokens
/// repeated, where language is of no help. A text from the corpus generator that has its truth
/// beside it (book.truth.jsonl beside book.txt) adds the patterns that only the truth knows.
/// Patterns that no row is eligible for are left out. Errors: names the text and what it lacks.
std::vector<Question> make_questions(const std::filesystem::path& folder, const LoadedModel& model,
                                     const QuestionRequest& request);

/// Every pattern that can be found in any text and occurs in this one.
std::vector<Targets> text_targets(const Sequences& sequences, const Tokenizer& tokenizer);

/// Cuts tokens into at most `count` sequences, spread evenly over them, so that no part counts for
/// all. Errors: fewer than two.
Sequences cut_sequences(std::span<const std::int32_t> ids, std::int64_t count, std::int64_t seq);

}  // namespace headloom
