#include "train/held_out.h"

#include "base/error.h"
#include "data/batches.h"
#include "train/config.h"

namespace headloom {

std::vector<std::int32_t> held_out_tokens(const std::filesystem::path& run, std::int64_t limit) {
  const RunConfig config = read_run_config(run / "config.toml");
  const TokenCache tokens(run / "tokens.bin", config.model.vocab_size);
  const std::int64_t context = config.model.context;
  const CorpusSplit split = split_corpus(tokens.size(), context, config.train.validation_fraction);
  const std::vector<std::int64_t> starts = window_starts(split.validation, context, 0);
  if (starts.empty()) fail("{} holds no text out; name one with --text", run.string());
  const auto all = static_cast<std::int64_t>(starts.size());
  const std::int64_t windows = std::min(all, std::max<std::int64_t>(1, limit / context));
  std::vector<std::int32_t> ids;
  for (std::int64_t w = 0; w < windows; ++w) {
    const std::int64_t begin = starts[static_cast<std::size_t>(w * all / windows)];
    for (std::int64_t t = 0; t < context; ++t) ids.push_back(tokens[begin + t]);
  }
  return ids;
}

}  // namespace headloom
