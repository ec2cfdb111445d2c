#include "report/sweep.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

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
  std::sort(speeds.begin(), speeds.end());
  row.tokens_per_second = speeds[speeds.size() / 2];
}

/// What one number of heads is to be trained as: a new run, or the one that is there.
struct Planned {
  fs::path run;
  TrainRequest request;
};

/// Config of a run as far as it says what is trained, on what, for how long.
Json what_is_trained(RunConfig config) {
  config.model.n_heads = {1};
  config.model.vocab_size = 0;  // a tokenizer may have found fewer tokens than were asked for
  for (std::string& path : config.data.corpus) path = fs::absolute(path).string();
  return run_config_to_json(config);
}

Planned plan_run(const TrainInputs& inputs, std::int64_t heads) {
  TrainInputs own = inputs;
  own.out = (fs::path(inputs.out) / fmt::format("heads-{}", heads)).string();
  own.model["n_heads"] = std::to_string(heads);
  const fs::path file = fs::path(own.out) / "config.toml";
  if (!fs::exists(file)) {
    TrainRequest request = make_train_request(own);
    request.config.validate();
    return {own.out, std::move(request)};
  }
  const RunConfig known = read_run_config(file);
  const std::string run =
      std::exchange(own.out, own.out + ".wanted");  // only to learn what is wanted
  const RunConfig wanted = make_train_request(own).config;
  if (known.model.n_heads != std::vector<std::int64_t>{heads} ||
      what_is_trained(known) != what_is_trained(wanted)) {
    fail_usage("{} holds a run of another training; choose another folder with --out", run);
  }
  return {run, make_train_request({.resume = run, .command = inputs.command})};
}

}  // namespace

std::vector<SweepRow> sweep_heads(const TrainInputs& inputs, const std::vector<std::int64_t>& heads,
                                  const QuestionRequest& question) {
  std::vector<Planned>
      plans;  // all of them first: what does not work is said before the first hour
  for (const std::int64_t n : heads) plans.push_back(plan_run(inputs, n));
  std::vector<SweepRow> rows;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const std::int64_t n = heads[i];
    const fs::path& run = plans[i].run;
    plans[i].request.watch = watch_heads;
    if (train_run(plans[i].request) != 0) fail("stopped; the same command goes on");
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
