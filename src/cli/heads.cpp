#include <fmt/core.h>

#include <memory>

#include "base/fields.h"
#include "cli/commands.h"
#include "data/corpus_reader.h"
#include "heads/head_scores.h"
#include "train/config.h"
#include "train/held_out.h"

namespace headloom {
namespace {

struct HeadsArguments {
  std::string model, text, head;
  std::int64_t sequences = 64, context = 0, step = -1;
  std::uint64_t seed = 1;
  bool json = false, csv = false;
};

Json pattern_json(const PatternScore& p) {
  return {{"pattern", p.pattern}, {"score", p.score},    {"hit_rate", p.hit_rate},
          {"chance", p.chance},   {"lift", p.lift},      {"low", p.low},
          {"high", p.high},       {"null", p.null_lift}, {"rows", p.rows}};
}

void print_json(const std::vector<HeadScores>& heads) {
  Json out = Json::array();
  for (const HeadScores& head : heads) {
    Json one = {{"head", head.name()}, {"layer", head.layer}, {"index", head.head}};
    for (std::int64_t k = 0; k < kHeadShapes; ++k) {
      one[std::string(enum_name(static_cast<HeadShape>(k)))] = head.shape[k];
    }
    one["patterns"] = Json::array();
    for (const PatternScore& p : head.patterns) one["patterns"].push_back(pattern_json(p));
    out.push_back(one);
  }
  fmt::print("{}\n", Json({{"heads", out}}).dump());
}

void print_csv(const std::vector<HeadScores>& heads) {
  fmt::print("head,pattern,score,hit_rate,chance,lift,low,high,null,rows\n");
  for (const HeadScores& head : heads) {
    for (const PatternScore& p : head.patterns) {
      fmt::print("{},{},{},{},{},{},{},{},{},{}\n", head.name(), p.pattern, p.score, p.hit_rate,
                 p.chance, p.lift, p.low, p.high, p.null_lift, p.rows);
    }
  }
}

void print_one(const HeadScores& head) {
  fmt::print("{}\n", head.name());
  for (std::int64_t k = 0; k < kHeadShapes; ++k) {
    fmt::print("  {:<24}{:8.3f}\n", enum_name(static_cast<HeadShape>(k)), head.shape[k]);
  }
  fmt::print("  {:<14}{:>8}{:>17}{:>8}{:>8}{:>8}{:>8}{:>8}\n", "pattern", "lift", "95% interval",
             "null", "score", "chance", "hits", "rows");
  for (const PatternScore& p : head.patterns) {
    fmt::print("  {:<14}{:8.3f}{:>17}{:8.3f}{:8.3f}{:8.3f}{:8.3f}{:8}\n", p.pattern, p.lift,
               fmt::format("{:.3f} to {:.3f}", p.low, p.high), p.null_lift, p.score, p.chance,
               p.hit_rate, p.rows);
  }
}

void print_table(const std::vector<HeadScores>& heads) {
  fmt::print("{:<7}{:<14}{:>7}{:>17}{:>8}{:>8}{:>9}{:>10}{:>7}\n", "head", "strongest", "lift",
             "95% interval", "null", "hits", "entropy", "distance", "sink");
  for (const HeadScores& head : heads) {
    const PatternScore& p = head.strongest();
    fmt::print("{:<7}{:<14}{:7.3f}{:>17}{:8.3f}{:8.3f}{:9.3f}{:10.1f}{:7.3f}\n", head.name(),
               p.pattern, p.lift, fmt::format("{:.3f} to {:.3f}", p.low, p.high), p.null_lift,
               p.hit_rate, head.shape_of(HeadShape::kEntropy), head.shape_of(HeadShape::kDistance),
               head.shape_of(HeadShape::kSink));
  }
  fmt::print(
      "\nlift: 0 is uniform attention, 1 is nothing else; null: the most that any head of the same "
      "model\nhas untrained. A strongest pattern is no role yet: what a head is worth is not "
      "measured here.\n");
}

/// Token ids of a text, or of what the run holds out.
std::vector<std::int32_t> tokens_to_examine(const HeadsArguments& given, const LoadedModel& model) {
  if (given.text.empty()) return held_out_tokens(given.model, 1 << 20);
  std::vector<std::int32_t> ids;
  Encoder encoder(model.tokenizer);
  for_each_part({corpus_files({given.text}), DataConfig().field},
                [&](std::string_view part, bool) { encoder.encode(part, ids); });
  return ids;
}

void heads(const HeadsArguments& given) {
  const LoadedModel model = load_model(given.model, given.step);
  const std::int64_t usual = std::min<std::int64_t>(model.config.context, 256);
  const std::int64_t seq = given.context > 0 ? given.context : usual;
  if (seq < 2 || seq > model.config.context) {
    fail_usage("--context {} does not work: 2 to the model's {} do", seq, model.config.context);
  }
  std::vector<HeadScores> list =
      examine_heads(model, tokens_to_examine(given, model), given.sequences, seq, given.seed);
  if (!given.head.empty()) {
    std::erase_if(list, [&](const HeadScores& head) { return head.name() != given.head; });
    if (list.empty()) {
      fail_usage("there is no head {}; they are named like L0H0 to L{}H{}", given.head,
                 model.config.n_layers - 1, model.config.heads_in(model.config.n_layers - 1) - 1);
    }
  }
  if (given.json) {
    print_json(list);
  } else if (given.csv) {
    print_csv(list);
  } else if (!given.head.empty()) {
    print_one(list[0]);
  } else {
    print_table(list);
  }
}

}  // namespace

void add_heads_command(CLI::App& app) {
  auto given = std::make_shared<HeadsArguments>();
  CLI::App* command = app.add_subcommand("heads",
                                         "Show where every attention head looks.\n\n"
                                         "  headloom heads runs/mybook\n"
                                         "  headloom heads runs/mybook --head L1H3\n"
                                         "  headloom heads gpt2/ --text book.txt --csv");
  command->add_option("model", given->model, "folder of a run, or of a published GPT-2")
      ->required();
  command->add_option(
      "--text", given->text,
      "text to look at, read as training reads it (default: what the run holds out)");
  command->add_option("--sequences", given->sequences, "sequences to look at")
      ->check(CLI::Range(2, 100000));
  command->add_option("--context", given->context, "tokens in each (default: at most 256)");
  command->add_option("--step", given->step, "checkpoint to use (default: the newest)");
  command->add_option("--head", given->head, "one head in detail, such as L1H3");
  command->add_option("--seed", given->seed, "seed of resamples, random tokens, untrained model");
  command->add_flag("--json", given->json, "one JSON object");
  command->add_flag("--csv", given->csv, "a line for each head and pattern");
  command->callback([given] { heads(*given); });
}

}  // namespace headloom
