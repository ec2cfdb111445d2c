#include "headloom/heads.h"

#include "api/train_request.h"
#include "base/files.h"
#include "heads/examination.h"
#include "heads/live_probe.h"
#include "report/report.h"

namespace headloom {
namespace {

HeadSummary summary_of(const HeadScores& scores) {
  HeadSummary summary{.head = scores.id.name(),
                      .role = {},
                      .lift = {},
                      .entropy = scores.shape_of(HeadShape::kEntropy),
                      .sink = scores.shape_of(HeadShape::kSink)};
  for (const PatternScore& p : scores.patterns) summary.lift[p.pattern] = p.lift;
  return summary;
}

QuestionRequest question_of(const HeadOptions& options) {
  return {.text = options.text,
          .sequences = options.sequences,
          .context = options.context,
          .seed = options.seed};
}

}  // namespace

std::vector<HeadSummary> examine_heads(const std::string& run, const HeadOptions& options) {
  const LoadedModel model = load_model(run, options.step);
  const Examination e =
      examine(model, make_questions(run, model, question_of(options)), options.seed);
  std::vector<HeadSummary> summaries;
  for (const HeadFindings& head : e.heads) {
    HeadSummary summary = summary_of(head.scores);
    summary.role = head.role;
    summary.cost = head.cost.mean;
    summary.importance = head.gradient.importance;
    summary.gradient_share = head.gradient.share;
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

double loss_with_gates(const std::string& run, const std::map<std::string, double>& gates,
                       const HeadOptions& options) {
  const LoadedModel model = load_model(run, options.step);
  const Sequences s = make_questions(run, model, question_of(options))[0].sequences;
  std::vector<float> factors(all_heads(model.config).size(), 1.0F);
  for (const auto& [name, gate] : gates) {
    const HeadId head = parse_head(name, model.config);
    factors[static_cast<std::size_t>(model.config.first_head(head.layer) + head.head)] =
        static_cast<float>(gate);
  }
  Ablator ablator(model.config, model.parameters.data(), s);
  return mean_loss(ablator.with_gates(factors), s);
}

double train_with_probe(const TrainOptions& options, const HeadProbe& probe) {
  TrainRequest request = request_of(options);
  if (!probe) return run_to_end(request);
  request.watch = [&probe](const WatchedRun& run) {
    return watch_heads_for(run, [&probe](std::int64_t step, const std::vector<LiveHead>& heads) {
      std::vector<HeadSummary> summaries;
      for (const LiveHead& head : heads) {
        HeadSummary summary = summary_of(head.scores);
        summary.importance = head.importance;
        summary.gradient_share = head.gradient_share;
        summary.update_share = head.update_share;
        summaries.push_back(std::move(summary));
      }
      probe(step, summaries);
    });
  };
  return run_to_end(request);
}

void write_head_report(const std::string& run, const std::string& file,
                       const HeadOptions& options) {
  write_file_atomic(file, report_page(report_data(run, question_of(options), options.step,
                                                  [](const std::string&) {})));
}

}  // namespace headloom
