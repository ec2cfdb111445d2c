#include "heads/findings_json.h"

namespace headloom {
namespace {

Json pattern_json(const PatternScore& p, const PatternWorth& w) {
  return {{"pattern", p.pattern},
          {"score", p.score},
          {"hit_rate", p.hit_rate},
          {"chance", p.chance},
          {"lift", p.lift},
          {"low", p.low},
          {"high", p.high},
          {"null", p.null_lift},
          {"shuffled", p.shuffled_lift},
          {"rows", p.rows},
          {"cost", estimate_json(w.cost)},
          {"elsewhere", estimate_json(w.elsewhere)},
          {"logit", estimate_json(w.logit)},
          {"p", w.p},
          {"holds", w.holds}};
}

Json head_json(const HeadFindings& head) {
  Json one = {{"head", head.id().name()},
              {"layer", head.id().layer},
              {"index", head.id().head},
              {"role", head.role},
              {"cost", estimate_json(head.cost)},
              {"importance", head.gradient.importance},
              {"gradient_share", head.gradient.share},
              {"gradient_norm", head.gradient.weight_norm},
              {"output_gradient_norm", head.gradient.output_norm}};
  for (std::int64_t k = 0; k < kHeadShapes; ++k) {
    one[std::string(enum_name(static_cast<HeadShape>(k)))] = head.scores.shape[k];
  }
  one["patterns"] = Json::array();
  for (std::size_t p = 0; p < head.worth.size(); ++p) {
    one["patterns"].push_back(pattern_json(head.scores.patterns[p], head.worth[p]));
  }
  return one;
}

}  // namespace

Json estimate_json(const Estimate& e) {
  return {{"mean", e.mean}, {"low", e.low}, {"high", e.high}, {"p", e.p}, {"rows", e.rows}};
}

Json examination_json(const Examination& e) {
  Json heads = Json::array();
  for (const HeadFindings& head : e.heads) heads.push_back(head_json(head));
  return {{"loss", e.loss},
          {"seed", e.seed},
          {"sequences", e.questions[0].sequences.batch},
          {"context", e.questions[0].sequences.seq},
          {"false_discovery_rate", kFalseDiscoveryRate},
          {"heads", std::move(heads)}};
}

}  // namespace headloom
