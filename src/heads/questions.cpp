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

void add_all(std::vector<Targets>& all, std::vector<Targets> more) {
  for (Targets& targets : more) {
    if (!targets.keys.empty()) all.push_back(std::move(targets));
  }
}

}  // namespace

Sequences cut_sequences(std::span<const std::int32_t> ids, std::int64_t count, std::int64_t seq) {
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
  if (seq < 2 || seq > most) {
    fail_usage("--context {} does not work: 2 to the model's {} do", seq, most);
  }
  const std::vector<std::int32_t> ids = request.text.empty()
                                            ? held_out_tokens(folder, kMostTokens)
                                            : tokens_of(request.text, model.tokenizer);
  Question text{cut_sequences(ids, request.sequences, seq), {}};
  Sequences& s = text.sequences;
  add_all(text.targets, plain_targets(s));
  add_all(text.targets, bracket_targets(s, model.tokenizer));
  add_all(text.targets, name_targets(s, find_names(s, model.tokenizer)));
  std::filesystem::path truth = request.text;
  truth.replace_extension(".truth.jsonl");
  if (!request.text.empty() && std::filesystem::exists(truth)) {
    set_offsets(s, ids, model.tokenizer);
    add_all(text.targets, truth_targets(s, model.tokenizer, truth));
  }
  Question repeated{repeated_random(s.batch, seq, model.tokenizer.vocab_size(), request.seed), {}};
  add_all(repeated.targets, {induction_targets(repeated.sequences)});
  return {std::move(text), std::move(repeated)};
}

}  // namespace headloom
