#pragma once

#include <string>
#include <vector>

#include "heads/targets.h"

namespace headloom {

/// A name in a sequence: tokens first ... last hold its letters.
struct Mention {
  std::string name;
  std::int32_t first = 0;
  std::int32_t last = 0;
};

/// Names in plain text, sequence by sequence. A word is taken for a name when it begins with a
/// capital letter, has more than that (I is no name) and never comes with a small one in these
/// sequences, so that the beginnings of sentences are not. A word that is cut by the edge of a
/// sequence counts as what is left of it.
std::vector<std::vector<Mention>> find_names(const Sequences& sequences,
                                             const Tokenizer& tokenizer);

/// `last name`: at every position the tokens of the latest name before it, judged where a name
/// comes next. `repeated name`: where a name comes next that was mentioned before, all its earlier
/// mentions. Source: nearest is Clark et al. 2019.
std::vector<Targets> name_targets(const Sequences& sequences,
                                  const std::vector<std::vector<Mention>>& names);

}  // namespace headloom
