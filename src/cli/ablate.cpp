#include <fmt/core.h>

#include <memory>

#include "cli/commands.h"
#include "heads/findings_json.h"

namespace headloom {
namespace {

struct AblateArguments {
  std::string model, kind;
  std::vector<std::string> heads;
  std::int64_t step = -1;
  QuestionRequest question;
  bool pairs = false, layers = false, json = false;
};

/// One ablation: which heads, how, and what it cost.
struct Row {
  std::string heads;
  Ablation kind;
  Estimate cost;
  bool pair = false;
  Estimate backup;  ///< of a pair: its cost beyond the sum of the two
};

std::vector<Ablation> kinds_of(const AblateArguments& given) {
  if (given.kind.empty()) {
    return {Ablation::kZero, Ablation::kMean, Ablation::kUniform, Ablation::kResample};
  }
  return {enum_from_text<Ablation>("--kind", given.kind)};
}

/// Heads to take away one at a time, or layer by layer.
std::vector<std::vector<HeadId>> groups_of(const AblateArguments& given, const ModelConfig& config,
                                           const std::vector<HeadId>& heads) {
  std::vector<std::vector<HeadId>> groups;
  if (!given.layers) {
    for (const HeadId& head : heads) groups.push_back({head});
    return groups;
  }
  for (std::int64_t l = 0; l < config.n_layers; ++l) {
    std::vector<HeadId> layer;
    for (const HeadId& head : all_heads(config)) {
      if (head.layer == l) layer.push_back(head);
    }
    groups.push_back(layer);
  }
  return groups;
}

std::vector<Row> pair_rows(Ablator& ablator, const Sequences& s, Ablation kind,
                           const std::vector<HeadId>& heads, std::uint64_t seed) {
  std::vector<RowResults> alone;
  for (const HeadId& head : heads) alone.push_back(ablator.without({&head, 1}, kind));
  const std::vector<float>& clean = ablator.clean().loss;
  std::vector<Row> rows;
  for (std::size_t a = 0; a < heads.size(); ++a) {
    for (std::size_t b = a + 1; b < heads.size(); ++b) {
      const HeadId both[] = {heads[a], heads[b]};
      const RowResults without = ablator.without(both, kind);
      std::vector<float> sum(clean.size());
      for (std::size_t r = 0; r < sum.size(); ++r) {
        sum[r] = alone[a].loss[r] + alone[b].loss[r] - clean[r];
      }
      rows.push_back({.heads = heads[a].name() + "+" + heads[b].name(),
                      .kind = kind,
                      .cost = mean_change(clean, without.loss, s, nullptr, Rows::kAll, seed),
                      .pair = true,
                      .backup = mean_change(sum, without.loss, s, nullptr, Rows::kAll, seed)});
    }
  }
  return rows;
}

std::string group_name(const AblateArguments& given, const std::vector<HeadId>& group) {
  return given.layers ? fmt::format("layer {}", group[0].layer) : group[0].name();
}

void print_rows(const std::vector<Row>& rows) {
  const auto interval = [](const Estimate& e) {
    return fmt::format("{:9.4f}  {:>18}", e.mean, fmt::format("{:.4f} to {:.4f}", e.low, e.high));
  };
  fmt::print("{:<12}{:<10}{:>9}  {:>18}{}\n", "heads", "kind", "cost", "95% interval",
             rows[0].pair ? "  beyond the two alone" : "");
  for (const Row& row : rows) {
    fmt::print("{:<12}{:<10}{}{}\n", row.heads, enum_name(row.kind), interval(row.cost),
               row.pair ? "  " + interval(row.backup) : "");
  }
}

void ablate(const AblateArguments& given) {
  const LoadedModel model = load_model(given.model, given.step);
  const std::vector<Question> questions = make_questions(given.model, model, given.question);
  const Sequences& s = questions[0].sequences;
  const std::uint64_t seed = given.question.seed;
  std::vector<HeadId> heads = all_heads(model.config);
  if (!given.heads.empty()) heads.clear();
  for (const std::string& name : given.heads) heads.push_back(parse_head(name, model.config));
  Ablator ablator(model.config, model.parameters.data(), s);
  std::vector<Row> rows;
  for (const Ablation kind : kinds_of(given)) {
    if (given.pairs) {
      const std::vector<Row> pairs = pair_rows(ablator, s, kind, heads, seed);
      rows.insert(rows.end(), pairs.begin(), pairs.end());
      continue;
    }
    for (const std::vector<HeadId>& group : groups_of(given, model.config, heads)) {
      const RowResults without = ablator.without(group, kind);
      rows.push_back(
          {.heads = group_name(given, group),
           .kind = kind,
           .cost = mean_change(ablator.clean().loss, without.loss, s, nullptr, Rows::kAll, seed)});
    }
  }
  if (rows.empty()) fail_usage("--pairs needs two heads at least");
  if (!given.json) return print_rows(rows);
  Json list = Json::array();
  for (const Row& row : rows) {
    Json one = {
        {"heads", row.heads}, {"kind", enum_name(row.kind)}, {"cost", estimate_json(row.cost)}};
    if (row.pair) one["beyond_the_two"] = estimate_json(row.backup);
    list.push_back(std::move(one));
  }
  fmt::print("{}\n", Json({{"ablations", list}}).dump());
}

}  // namespace

void add_ablate_command(CLI::App& app) {
  auto given = std::make_shared<AblateArguments>();
  CLI::App* command = app.add_subcommand(
      "ablate",
      "Take heads away and measure what the loss says, in nats a token.\n\n"
      "  headloom ablate runs/mybook                        every head, four ways\n"
      "  headloom ablate runs/mybook --kind zero --layers   layer by layer\n"
      "  headloom ablate runs/mybook --kind mean --pairs --head L0H1 --head L1H2\n\n"
      "zero: the head says nothing; mean: what it says on average; uniform: it looks everywhere "
      "alike;\nresample: it looks at another text. One head's cost is a lower bound, because "
      "others "
      "fill in; two\nthat cost more together than alone (beyond the two) back each other up.");
  command->add_option("model", given->model, "folder of a run, or of a published GPT-2")
      ->required();
  command->add_option("--kind", given->kind, "zero, mean, uniform or resample (default: all)");
  command->add_option("--head", given->heads, "these heads only, such as L1H3");
  command->add_flag("--pairs", given->pairs, "two at a time");
  command->add_flag("--layers", given->layers, "all heads of a layer at a time")
      ->excludes("--pairs")
      ->excludes("--head");
  command->add_option("--step", given->step, "checkpoint to use (default: the newest)");
  command->add_flag("--json", given->json, "one JSON object");
  add_question_options(*command, given->question);
  command->callback([given] { ablate(*given); });
}

}  // namespace headloom
