#include "report/sweep.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "heads/examination.h"
#include "heads/live_probe.h"
#include "train/checkpoint.h"
#include "train/run.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

/// Median speed and last validation loss of a run, from its metrics.
void read_metrics(const fs::path& run, SweepRow& row) {
  std::vector<double> speeds;
  row.validation_loss = NAN;
  std::istringstream lines(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded()) continue;
    if (json.contains("seconds")) {
      speeds.push_back(json["tokens"].get<double>() / json["seconds"].get<double>());
    }
    if (json.contains("validation_loss")) row.validation_loss = json["validation_loss"];
  }
  if (speeds.empty()) fail("{} has no steps in its metrics", run.string());
  std::nth_element(speeds.begin(), speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2),
                   speeds.end());
  row.tokens_per_second = speeds[speeds.size() / 2];
}

/// Trains the run of one number of heads unless it is there already, finished.
fs::path run_of(const TrainInputs& inputs, std::int64_t heads) {
  TrainInputs own = inputs;
  own.out = (fs::path(inputs.out) / fmt::format("heads-{}", heads)).string();
  own.model["n_heads"] = std::to_string(heads);
  const fs::path config = fs::path(own.out) / "config.toml";
  const bool there = fs::exists(config);
  if (there && read_run_config(config).model.n_heads != std::vector<std::int64_t>{heads}) {
    fail("{} holds a run with other heads", own.out);
  }
  TrainRequest request =
      make_train_request(there ? TrainInputs{.resume = own.out, .command = inputs.command} : own);
  request.watch = watch_heads;
  if (train_run(request) != 0) fail("stopped; the same command goes on");
  return own.out;
}

}  // namespace

std::vector<SweepRow> sweep_heads(const TrainInputs& inputs, const std::vector<std::int64_t>& heads,
                                  const QuestionRequest& question) {
  std::vector<SweepRow> rows;
  for (const std::int64_t n : heads) {
    const fs::path run = run_of(inputs, n);
    const LoadedModel model = load_model(run);
    const std::int64_t dim = model.config.head_layout(0).head_dim, lanes = vector_floats();
    SweepRow row{.heads = n,
                 .head_dim = dim,
                 .parameters = model.layout.count(),
                 .lanes_used = static_cast<double>(dim) /
                               static_cast<double>((dim + lanes - 1) / lanes * lanes),
                 .roles = {},
                 .run = run.string()};
    read_metrics(run, row);
    const Examination e = examine(model, make_questions(run, model, question), question.seed);
    for (const HeadFindings& head : e.heads) row.roles[head.role] += 1;
    rows.push_back(std::move(row));
  }
  return rows;
}

Json sweep_json(const std::vector<SweepRow>& rows) {
  Json list = Json::array();
  for (const SweepRow& row : rows) {
    list.push_back({{"n_heads", row.heads},
                    {"head_dim", row.head_dim},
                    {"parameters", row.parameters},
                    {"validation_loss", row.validation_loss},
                    {"tokens_per_second", row.tokens_per_second},
                    {"lanes_used", row.lanes_used},
                    {"roles", row.roles},
                    {"run", row.run}});
  }
  return {{"sweep", list}};
}

}  // namespace headloom
