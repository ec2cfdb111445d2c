#include <fmt/core.h>

#include <memory>

#include "base/error.h"
#include "base/fields.h"
#include "cli/commands.h"
#include "heads/live_probe.h"
#include "heads/prune.h"
#include "train/run.h"

namespace headloom {
namespace {

struct PruneArguments {
  std::string model, out, by = "ablation", command;
  double keep = 0.75;
  std::int64_t step = -1, finetune = 0;
  QuestionRequest question;
  bool json = false, quiet = false;
};

/// What pruning changed.
struct Outcome {
  std::size_t heads_before, heads_after;
  std::int64_t parameters_before, parameters_after;
  double loss_before, loss_gated, loss_after;
  double speed_before, speed_after;  ///< tokens a second, forward
};

void print_outcome(const Outcome& o, const ModelConfig& pruned, const PruneArguments& given) {
  if (given.json) {
    fmt::print("{}\n", Json({{"out", given.out},
                             {"by", given.by},
                             {"n_heads", pruned.n_heads},
                             {"heads", {o.heads_before, o.heads_after}},
                             {"parameters", {o.parameters_before, o.parameters_after}},
                             {"loss", {o.loss_before, o.loss_after}},
                             {"loss_gated", o.loss_gated},
                             {"tokens_per_second", {o.speed_before, o.speed_after}}})
                           .dump());
    return;
  }
  fmt::print("{:<22}{:>12}{:>12}\n", "", "before", "after");
  fmt::print("{:<22}{:>12}{:>12}\n", "heads", o.heads_before, o.heads_after);
  fmt::print("{:<22}{:>12}{:>12}\n", "parameters", o.parameters_before, o.parameters_after);
  fmt::print("{:<22}{:12.4f}{:12.4f}   gated instead of pruned: {:.4f}\n", "loss, nats a token",
             o.loss_before, o.loss_after, o.loss_gated);
  fmt::print("{:<22}{:12.0f}{:12.0f}   forward, median of 5\n", "tokens/s", o.speed_before,
             o.speed_after);
  fmt::print("heads by layer: {}\n{}\n", fmt::join(pruned.n_heads, ","), given.out);
}

void prune(PruneArguments given, int* exit_code) {
  const auto by = enum_from_text<PruneBy>("--by", given.by);
  if (given.out.empty()) {
    given.out = (std::filesystem::path(given.model) / "").parent_path().string() + "-pruned";
  }
  const LoadedModel model = load_model(given.model, given.step);
  check_prunable(given.model, given.out, model.config);
  const Sequences s = make_questions(given.model, model, given.question)[0].sequences;
  float* parameters = model.parameters.data();
  const std::vector<double> worths =
      head_worths(by, model.config, parameters, s, given.question.seed);
  const std::vector<HeadId> kept = heads_to_keep(model.config, worths, given.keep);
  const ModelConfig config = pruned_config(model.config, kept);
  const ParameterLayout layout(config);
  const ParameterArray<float> pruned(layout);
  copy_kept(model.config, parameters, config, kept, pruned.data());
  write_pruned_run(given.model, given.out, config, pruned.data(), given.finetune, given.command);
  Ablator whole(model.config, parameters, s);
  const Ablator smaller(config, pruned.data(), s);
  print_outcome({.heads_before = worths.size(),
                 .heads_after = kept.size(),
                 .parameters_before = model.layout.count(),
                 .parameters_after = layout.count(),
                 .loss_before = mean_loss(whole.clean(), s),
                 .loss_gated = mean_loss(whole.with_gates(gates_of(model.config, kept)), s),
                 .loss_after = mean_loss(smaller.clean(), s),
                 .speed_before = forward_speed(model.config, parameters, s),
                 .speed_after = forward_speed(config, pruned.data(), s)},
                config, given);
  if (given.finetune == 0) return;
  TrainRequest request = make_train_request({.resume = given.out, .command = given.command});
  request.watch = watch_heads;
  if (given.quiet) request.verbosity = Verbosity::kQuiet;
  *exit_code = train_run(request);
}

}  // namespace

void add_prune_command(CLI::App& app, const std::string& command_line, int* exit_code) {
  auto given = std::make_shared<PruneArguments>();
  given->command = command_line;
  CLI::App* command =
      app.add_subcommand("prune",
                         "Make a smaller model of the heads that are worth most.\n\n"
                         "  headloom prune runs/mybook --keep 0.75\n"
                         "  headloom prune runs/mybook --keep 0.5 --by importance --finetune 300");
  command->add_option("run", given->model, "folder of a run")->required();
  command->add_option("--keep", given->keep, "part of the heads that stays; a layer keeps one")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option(
      "--by", given->by,
      "worth: ablation (loss), importance (Michel et al.), gradient (share), random");
  command->add_option("--out", given->out, "folder of the smaller run (default: RUN-pruned)");
  command->add_option("--finetune", given->finetune, "steps to train it afterwards")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--step", given->step, "checkpoint to use (default: the newest)");
  command->add_flag("-q,--quiet", given->quiet, "only errors while training");
  command->add_flag("--json", given->json, "one JSON object");
  add_question_options(*command, given->question);
  command->callback([given, exit_code] { prune(*given, exit_code); });
}

}  // namespace headloom
