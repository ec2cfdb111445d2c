#include "heads/questions.h"

#include "base/error.h"
#include "data/corpus_reader.h"
#include "heads/names.h"
#include "heads/truth.h"
#include "train/config.h"
#include "train/held_out.h"

namespace headloom {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 20;
constexpr std::int64_t kUsualContext = 256;

std::vector<std::int32_t> tokens_of(const std::string& text, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  Encoder encoder(tokenizer);
  for_each_part({corpus_files({text}), DataConfig().field},
                [&](std::string_view part, bool) { encoder.encode(part, ids); });
  return ids;
}

/// Sets where each sequence begins in a text that is `ids` from its first byte on.
void set_offsets(Sequences& s, std::span<const std::int32_t> ids, const Tokenizer& tokenizer) {
  const auto available = static_cast<std::int64_t>(ids.size()) / s.seq;
  std::int64_t bytes = 0, next = 0;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::int64_t begin = b * available / s.batch * s.seq;
    for (; next < begin; ++next) {
      const std::int32_t id = ids[static_cast<std::size_t>(next)];
      bytes += static_cast<std::int64_t>(tokenizer.token_bytes(id).size());
    }
    s.offsets.push_back(bytes);
  }
}

}  // namespace

std::vector<Targets> text_targets(const Sequences& sequences, const Tokenizer& tokenizer) {
  std::vector<Targets> all;
  for (std::vector<Targets> some : {plain_targets(sequences), bracket_targets(sequences, tokenizer),
                                    name_targets(sequences, find_names(sequences, tokenizer))}) {
    for (Targets& targets : some) {
      if (!targets.keys.empty()) all.push_back(std::move(targets));
    }
  }
  return all;
}

Sequences cut_sequences(std::span<const std::int32_t> ids, std::int64_t count, std::int64_t seq) {
  if (count < 2) fail_usage("{} sequences are too few; 2 are the least", count);
  const auto available = static_cast<std::int64_t>(ids.size()) / seq;
  if (available < 2) {
    fail("{} tokens are too few to examine heads on: two sequences of {} are the least", ids.size(),
         seq);
  }
  Sequences s{.batch = std::min(count, available), .seq = seq, .ids = {}, .offsets = {}};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const auto from = ids.begin() + b * available / s.batch * seq;
    s.ids.insert(s.ids.end(), from, from + seq);
  }
  return s;
}

std::vector<Question> make_questions(const std::filesystem::path& folder, const LoadedModel& model,
                                     const QuestionRequest& request) {
  const std::int64_t most = model.config.context;
  const std::int64_t seq = request.context > 0 ? request.context : std::min(most, kUsualContext);
  if (request.context < 0 || seq < 2 || seq > most) {
    fail_usage("--context {} does not work: 2 to the model's {} do",
               request.context != 0 ? request.context : seq, most);
  }
  if (request.text.empty() && !std::filesystem::exists(folder / "config.toml")) {
    fail_usage("{} is no run that holds text out; name one with --text", folder.string());
  }
  const std::vector<std::int32_t> ids = request.text.empty()
                                            ? held_out_tokens(folder, kMostTokens)
                                            : tokens_of(request.text, model.tokenizer);
  Question text{cut_sequences(ids, request.sequences, seq), {}};
  Sequences& s = text.sequences;
  text.targets = text_targets(s, model.tokenizer);
  std::filesystem::path truth = request.text;
  truth.replace_extension(".truth.jsonl");
  if (!request.text.empty() && std::filesystem::exists(truth)) {
    set_offsets(s, ids, model.tokenizer);
    for (Targets& t : truth_targets(s, model.tokenizer, truth)) {
      if (!t.keys.empty()) text.targets.push_back(std::move(t));
    }
  }
  const Repeated repeated =
      repeated_random(s.batch, seq, model.tokenizer.vocab_size(), request.seed);
  return {std::move(text), {repeated.sequences, {induction_targets(repeated)}}};
}

}  // namespace headloom
