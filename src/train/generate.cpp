#include "train/generate.h"

#include <set>

#include "base/error.h"

namespace headloom {
namespace {

/// Passes text on, but keeps back what could be the beginning of the stop text.
class StopFilter {
 public:
  StopFilter(const std::string& stop, const std::function<void(std::string_view)>& emit)
      : stop_(stop), emit_(emit) {}

  /// Returns false when the stop text has come.
  bool add(const std::string& text) {
    held_ += text;
    if (stop_.empty()) {
      flush();
      return true;
    }
    const std::size_t found = held_.find(stop_);
    if (found != held_.npos) {
      held_.resize(found);
      flush();
      return false;
    }
    std::size_t keep = std::min(held_.size(), stop_.size() - 1);
    while (keep > 0 && !stop_.starts_with(std::string_view(held_).substr(held_.size() - keep))) {
      --keep;
    }
    emit_(std::string_view(held_).substr(0, held_.size() - keep));
    held_.erase(0, held_.size() - keep);
    return true;
  }
  void flush() {
    if (!held_.empty()) emit_(held_);
    held_.clear();
  }

 private:
  std::string stop_;
  const std::function<void(std::string_view)>& emit_;
  std::string held_;
};

}  // namespace

std::vector<std::int32_t> generate(Decoder& decoder, const Tokenizer& tokenizer,
                                   const SamplerConfig& sampler, const GenerateConfig& config,
                                   const std::function<void(std::string_view)>& emit) {
  sampler.validate();
  // A document begins after an end-of-text, so that is what a model of documents expects first.
  std::vector<std::int32_t> ids = {tokenizer.end_of_text()};
  Encoder(tokenizer).encode(config.prompt, ids);
  const std::size_t prompt_size = ids.size();
  const auto written = [&] {
    return std::vector<std::int32_t>(ids.begin() + static_cast<std::ptrdiff_t>(prompt_size),
                                     ids.end());
  };
  const std::int64_t context = decoder.context();
  if (static_cast<std::int64_t>(ids.size()) > context) {
    fail_usage("the prompt has {} tokens; the context of {} has room for {}", ids.size() - 1,
               context, context - 1);
  }
  Rng rng(config.seed);
  StreamDecoder text(tokenizer);
  StopFilter filter(config.stop, emit);
  decoder.reset();
  std::span<const float> logits = decoder.feed(ids);
  for (std::int64_t i = 0; i < config.tokens; ++i) {
    // A published model may have more rows of logits than its tokenizer has tokens.
    const auto known = static_cast<std::size_t>(tokenizer.vocab_size());
    const std::int32_t id =
        sample_token(logits.first(std::min(logits.size(), known)), ids, sampler, rng);
    if (id == tokenizer.end_of_text()) break;
    ids.push_back(id);
    if (!filter.add(text.add(id))) return written();
    if (i + 1 == config.tokens) break;
    if (decoder.length() == context) {
      decoder.reset();
      const auto half = static_cast<std::size_t>(std::max<std::int64_t>(1, context / 2));
      logits = decoder.feed(std::span(ids).last(std::min(half, ids.size())));
    } else {
      logits = decoder.feed({&ids.back(), 1});
    }
  }
  filter.add(text.finish());
  filter.flush();
  return written();
}

double repeated_share(std::span<const std::int32_t> ids) {
  constexpr std::size_t kRun = 4;
  if (ids.size() < kRun) return 0;
  std::set<std::vector<std::int32_t>> seen;
  std::size_t repeated = 0;
  for (std::size_t i = 0; i + kRun <= ids.size(); ++i) {
    const auto run = ids.subspan(i, kRun);
    if (!seen.emplace(run.begin(), run.end()).second) ++repeated;
  }
  return static_cast<double>(repeated) / static_cast<double>(ids.size() - kRun + 1);
}

}  // namespace headloom
