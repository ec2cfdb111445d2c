#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "heads/questions.h"
#include "train/request.h"

namespace headloom {

/// The question of the seed: why many heads and not one wider head? One training for each number of
/// heads, all else equal: width, so parameters; tokens; seed.
struct SweepRow {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t parameters = 0;
  double validation_loss = 0;
  double tokens_per_second = 0;  ///< median over steps
  double lanes_used = 0;         ///< part of a vector's lanes that hold a head's dimensions
  std::map<std::string, std::int64_t> roles;  ///< heads by role, "sink" and "unclassified" too
  std::string run;
};

/// Trains (or, where a folder under `inputs.out` holds the run already, takes) a run for each
/// number of heads and examines it. Errors: kUsage, before any training, when a number does not
/// divide the width, or when a run that is there was trained in another way.
std::vector<SweepRow> sweep_heads(const TrainInputs& inputs, const std::vector<std::int64_t>& heads,
                                  const QuestionRequest& question);

Json sweep_json(const std::vector<SweepRow>& rows);

/// Loss and speed over the number of heads, as a picture that any browser shows.
std::string sweep_svg(const std::vector<SweepRow>& rows);

}  // namespace headloom
