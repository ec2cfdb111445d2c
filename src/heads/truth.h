#pragma once

#include <filesystem>
#include <vector>

#include "heads/targets.h"

namespace headloom {

/// What only the writer of a text knows, from the truth that the corpus generator puts beside it
/// (data/corpus_generator.h). `tense`: where a verb comes next, the time marker that decides its
/// form. `answer`: where the answer to "who has it?" comes next, the mention it is taken from.
/// Sequences must know their offsets in that text; places outside of a sequence drop out.
/// Errors: kFailed, naming file and line, for what is no truth.
std::vector<Targets> truth_targets(const Sequences& sequences, const Tokenizer& tokenizer,
                                   const std::filesystem::path& truth);

}  // namespace headloom
