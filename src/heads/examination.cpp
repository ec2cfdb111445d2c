#include "heads/examination.h"

#include <algorithm>

namespace headloom {
namespace {

bool passes(const PatternScore& score, const PatternWorth& worth) {
  const bool looks =
      score.lift >= kLeastLift && score.low > score.null_lift && score.low > score.shuffled_lift;
  const bool costs =
      worth.cost.mean > 0 && (worth.elsewhere.rows == 0 || worth.cost.mean > worth.elsewhere.mean);
  return looks && costs && worth.logit.mean > 0;
}

PatternWorth worth_of(const Question& question, const Targets& pattern, const RowResults& clean,
                      const RowResults& without, const PatternScore& score, std::uint64_t seed) {
  const Sequences& s = question.sequences;
  PatternWorth worth;
  worth.cost = mean_change(clean.loss, without.loss, s, &pattern, Rows::kJudged, seed);
  // The only rows that have no previous token are the first ones: they say nothing about it.
  if (!pattern.of_position) {
    worth.elsewhere = mean_change(clean.loss, without.loss, s, &pattern, Rows::kOther, seed);
  }
  worth.logit = mean_change(without.logit, clean.logit, s, &pattern, Rows::kJudged, seed);
  worth.p = std::max({score.p, worth.cost.p, worth.logit.p});
  return worth;
}

}  // namespace

const PatternScore* HeadFindings::role_score() const {
  for (const PatternScore& p : scores.patterns) {
    if (p.pattern == role) return &p;
  }
  return nullptr;
}

const PatternWorth* HeadFindings::role_worth() const {
  const PatternScore* score = role_score();
  return score != nullptr ? &worth[static_cast<std::size_t>(score - scores.patterns.data())]
                          : nullptr;
}

void judge(std::vector<HeadFindings>& heads) {
  std::vector<double> p;
  for (const HeadFindings& head : heads) {
    for (const PatternWorth& worth : head.worth) p.push_back(worth.p);
  }
  const std::vector<bool> significant = reject_at(p, kFalseDiscoveryRate);
  std::size_t i = 0;
  for (HeadFindings& head : heads) {
    head.role = head.scores.shape_of(HeadShape::kSink) > kSinkMass ? "sink" : "unclassified";
    double best = 0;
    for (std::size_t k = 0; k < head.worth.size(); ++k) {
      const PatternScore& score = head.scores.patterns[k];
      head.worth[k].holds = significant[i++] && passes(score, head.worth[k]);
      if (!head.worth[k].holds || score.lift <= best) continue;
      best = score.lift;
      head.role = score.pattern;
    }
  }
}

Examination examine(const LoadedModel& model, std::vector<Question> questions, std::uint64_t seed,
                    const std::function<void(std::int64_t, std::int64_t)>& progress,
                    const Ops<float>& ops) {
  Examination result{.questions = std::move(questions), .heads = {}, .seed = seed};
  const ParameterArray<float> fresh = fresh_parameters(model.config, seed);
  float* parameters = model.parameters.data();
  const std::vector<HeadId> ids = all_heads(model.config);
  const std::vector<HeadGradient> gradients =
      head_gradients(model.config, parameters, result.questions[0].sequences, ops);
  result.heads.resize(ids.size());
  for (std::size_t h = 0; h < ids.size(); ++h) result.heads[h].gradient = gradients[h];
  for (std::size_t q = 0; q < result.questions.size(); ++q) {
    const Question& question = result.questions[q];
    const std::vector<HeadScores> scores =
        score_heads(model.config, parameters, question, fresh.data(), seed, ops);
    Ablator ablator(model.config, parameters, question.sequences, ops);
    if (q == 0) result.loss = mean_loss(ablator.clean(), question.sequences);
    for (std::size_t h = 0; h < ids.size(); ++h) {
      HeadFindings& head = result.heads[h];
      const RowResults without = ablator.without({&ids[h], 1}, Ablation::kMean);
      if (q == 0) {
        head.scores = scores[h];
        head.cost = mean_change(ablator.clean().loss, without.loss, question.sequences, nullptr,
                                Rows::kAll, seed);
      } else {
        head.scores.patterns.insert(head.scores.patterns.end(), scores[h].patterns.begin(),
                                    scores[h].patterns.end());
      }
      for (std::size_t p = 0; p < question.targets.size(); ++p) {
        head.worth.push_back(worth_of(question, question.targets[p], ablator.clean(), without,
                                      scores[h].patterns[p], seed));
      }
      if (progress) {
        progress(static_cast<std::int64_t>(q * ids.size() + h + 1),
                 static_cast<std::int64_t>(result.questions.size() * ids.size()));
      }
    }
  }
  judge(result.heads);
  return result;
}

}  // namespace headloom
