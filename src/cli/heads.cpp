#include <fmt/core.h>

#include <memory>

#include "base/progress.h"
#include "cli/commands.h"
#include "cli/device.h"
#include "heads/examination.h"
#include "heads/findings_json.h"

namespace headloom {
namespace {

struct HeadsArguments {
  std::string model, head;
  std::vector<std::int64_t> steps;
  QuestionRequest question;
  BackendChoice backend;
  bool json = false, csv = false;
};

std::string interval(double low, double high) {
  return fmt::format("{:.3f} to {:.3f}", low, high);
}

void print_csv(const std::vector<HeadFindings>& heads, std::int64_t step) {
  for (const HeadFindings& head : heads) {
    for (std::size_t k = 0; k < head.worth.size(); ++k) {
      const PatternScore& p = head.scores.patterns[k];
      const PatternWorth& w = head.worth[k];
      fmt::print("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", step, head.id().name(),
                 head.role, p.pattern, p.score, p.hit_rate, p.chance, p.lift, p.low, p.high,
                 p.null_lift, p.shuffled_lift, p.rows, w.cost.mean, w.cost.low, w.cost.high,
                 w.elsewhere.mean, w.p);
    }
  }
}

void print_one(const HeadFindings& head) {
  fmt::print("{}: {}\n", head.id().name(), head.role);
  for (std::int64_t k = 0; k < kHeadShapes; ++k) {
    fmt::print("  {:<24}{:8.3f}\n", enum_name(static_cast<HeadShape>(k)), head.scores.shape[k]);
  }
  fmt::print("  {:<24}{:8.4f}   {} nats, mean ablation\n", "cost", head.cost.mean,
             interval(head.cost.low, head.cost.high));
  fmt::print("  {:<24}{:8.4f}\n  {:<24}{:8.3f}\n", "importance", head.gradient.importance,
             "gradient share", head.gradient.share);
  fmt::print("\n  {:<14}{:>7}{:>17}{:>7}{:>9}{:>7}{:>8}{:>9}{:>11}{:>9}\n", "pattern", "lift",
             "95% interval", "null", "shuffled", "hits", "rows", "cost", "elsewhere", "p");
  for (std::size_t k = 0; k < head.worth.size(); ++k) {
    const PatternScore& p = head.scores.patterns[k];
    const PatternWorth& w = head.worth[k];
    fmt::print("{} {:<14}{:7.3f}{:>17}{:7.3f}{:9.3f}{:7.3f}{:8}{:9.4f}{:>11}{:9.1e}\n",
               w.holds ? "*" : " ", p.pattern, p.lift, interval(p.low, p.high), p.null_lift,
               p.shuffled_lift, p.hit_rate, p.rows, w.cost.mean,
               w.elsewhere.rows > 0 ? fmt::format("{:.4f}", w.elsewhere.mean) : "-", w.p);
  }
}

void print_table(const Examination& e) {
  fmt::print("{:<7}{:<15}{:<15}{:>6}{:>17}{:>7}{:>9}{:>10}{:>11}{:>7}\n", "head", "role",
             "looks most at", "lift", "95% interval", "null", "cost", "elsewhere", "cost, all",
             "sink");
  for (const HeadFindings& head : e.heads) {
    const PatternScore* role = head.role_score();
    const PatternScore& p = role != nullptr ? *role : head.scores.strongest();
    const PatternWorth& w = head.worth[static_cast<std::size_t>(&p - head.scores.patterns.data())];
    fmt::print("{:<7}{:<15}{:<15}{:6.3f}{:>17}{:7.3f}{:9.4f}{:>10}{:11.4f}{:7.3f}\n",
               head.id().name(), head.role, p.pattern, p.lift, interval(p.low, p.high),
               std::max(p.null_lift, p.shuffled_lift), w.cost.mean,
               w.elsewhere.rows > 0 ? fmt::format("{:.4f}", w.elsewhere.mean) : "-", head.cost.mean,
               head.scores.shape_of(HeadShape::kSink));
  }
  fmt::print(
      "\nlift: 0 is uniform attention, 1 is nothing else; null: the most that the same model has "
      "untrained,\nor this head on shuffled labels; cost: nats of loss where the pattern should "
      "help, when the head says\nwhat it says on average. A role needs lift, cost and the right "
      "token's logit to agree, at a false-\ndiscovery rate of {:.0f}%; the loss is {:.4f}.\n",
      100 * kFalseDiscoveryRate, e.loss);
}

Examination examine_step(const HeadsArguments& given, const Ops<float>& ops, std::int64_t step) {
  Progress progress;  // ends, and clears its line, before anything is printed
  const LoadedModel model = load_model(given.model, step);
  HeadId wanted;
  if (!given.head.empty()) wanted = parse_head(given.head, model.config);
  Examination e = examine(
      model, make_questions(given.model, model, given.question), given.question.seed,
      [&](std::int64_t done, std::int64_t all) {
        if (!progress.live()) return;
        progress.status(fmt::format("pass {} of {}", done, all));
      },
      ops);
  if (!given.head.empty()) {
    std::erase_if(e.heads, [&](const HeadFindings& head) { return head.id() != wanted; });
  }
  return e;
}

void print_examination(const HeadsArguments& given, std::int64_t step, const Examination& e) {
  if (given.csv) return print_csv(e.heads, step);
  if (step >= 0) fmt::print("step {}\n", step);
  if (given.head.empty()) {
    print_table(e);
  } else {
    print_one(e.heads[0]);
  }
}

void heads(const HeadsArguments& given) {
  const Ops<float>& ops = open_device(given.backend);
  Json all = Json::array();
  if (given.csv) {
    fmt::print(
        "step,head,role,pattern,score,hit_rate,chance,lift,low,high,null,shuffled,rows,cost,"
        "cost_low,cost_high,elsewhere,p\n");
  }
  for (const std::int64_t step : given.steps) {
    const Examination e = examine_step(given, ops, step);
    if (!given.json) {
      print_examination(given, step, e);
      continue;
    }
    Json one = examination_json(e);
    if (step >= 0) one["step"] = step;
    all.push_back(std::move(one));
  }
  if (given.json) fmt::print("{}\n", (given.steps.size() == 1 ? all[0] : all).dump());
}

}  // namespace

void add_question_options(CLI::App& command, QuestionRequest& request) {
  command.add_option(
      "--text", request.text,
      "text to look at: files, of .jsonl the field \"text\" (default: what the run holds out)");
  command.add_option("--sequences", request.sequences, "sequences to look at")
      ->check(CLI::Range(2, 100000));
  command.add_option("--context", request.context, "tokens in each (default: at most 256)");
  command.add_option("--seed", request.seed, "seed of resamples, random tokens, untrained model");
}

void add_heads_command(CLI::App& app) {
  auto given = std::make_shared<HeadsArguments>();
  CLI::App* command = app.add_subcommand("heads",
                                         "Show what every attention head looks at and is worth.\n\n"
                                         "  headloom heads runs/mybook\n"
                                         "  headloom heads runs/mybook --head L1H3\n"
                                         "  headloom heads runs/mybook --step 500 --step 1000\n"
                                         "  headloom heads gpt2/ --text book.txt --csv");
  command->add_option("model", given->model, "folder of a run, or of a published GPT-2")
      ->required();
  add_question_options(*command, given->question);
  add_device_options(*command, given->backend);
  command->add_option("--step", given->steps, "checkpoints to use (default: the newest)");
  command->add_option("--head", given->head, "one head in detail, such as L1H3");
  command->add_flag("--json", given->json, "JSON: one object, or a list of one per checkpoint");
  command->add_flag("--csv", given->csv, "a line for each head and pattern");
  command->callback([given] {
    if (given->steps.empty()) given->steps = {-1};
    heads(*given);
  });
}

}  // namespace headloom
