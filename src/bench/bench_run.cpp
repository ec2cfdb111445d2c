#include "bench/bench_run.h"

#include "base/files.h"
#include "base/rng.h"

namespace headloom {
namespace {

std::filesystem::path build_cache(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                                  std::int64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  Rng rng(1);
  for (char& c : text) c = static_cast<char>(rng.below(256));
  write_file_atomic(folder / "text", text);
  TokenCache::build(folder / "tokens", {{folder / "text"}, ""}, tokenizer, 0);
  return folder / "tokens";
}

RunConfig run_config(const ModelConfig& model, std::int64_t batch) {
  RunConfig run;
  run.model = model;
  run.train.batch = batch;
  run.train.validation_fraction = 0;
  return run;
}

}  // namespace

BenchRun::BenchRun(const ModelConfig& config, std::int64_t batch, const Ops<float>& ops)
    : tokenizer_(Tokenizer::bytes()),
      tokens_(build_cache(folder_.path(), tokenizer_, 4 * batch * (config.context + 1)),
              tokenizer_.vocab_size()),
      trainer_(run_config(config, batch), tokens_, split_corpus(tokens_.size(), config.context, 0),
               ops) {}

}  // namespace headloom
