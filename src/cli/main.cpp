#include <cstdio>
#include <exception>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cuda/backend.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app(
      "Headloom grows small GPTs from raw text and shows what every attention head learns.",
      "headloom");
  app.formatter(std::make_shared<headloom::HelpFormatter>());
  app.require_subcommand(1);
  app.set_version_flag("--version", HEADLOOM_VERSION);
  int exit_code = 0;
  const std::string command_line =
      fmt::format("headloom {}", fmt::join(argv + 1, argv + argc, " "));
  headloom::add_train_command(app, command_line, &exit_code);
  headloom::add_sample_command(app);
  headloom::add_params_command(app);
  headloom::add_plan_command(app);
  headloom::add_trace_command(app);
  headloom::add_heads_command(app);
  headloom::add_ablate_command(app);
  headloom::add_report_command(app);
  headloom::add_sweep_command(app, command_line);
  headloom::add_prune_command(app, command_line, &exit_code);
  headloom::add_bench_command(app);
  headloom::add_selftest_command(app);
  headloom::add_corpus_command(app);
  app.add_subcommand("completion", "Print a completion script for bash.")->callback([&app] {
    std::fputs(headloom::bash_completion(app).c_str(), stdout);
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    const std::string unknown = headloom::suggestion(app, argc, argv);
    std::fprintf(stderr, "headloom: %s\nheadloom --help says more.\n",
                 unknown.empty() ? error.what() : unknown.c_str());
    return static_cast<int>(headloom::ErrorKind::kUsage);
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  headloom::add_cuda_backend();
  try {
    return run(argc, argv);
  } catch (const headloom::Error& error) {
    std::fprintf(stderr, "headloom: %s\n", error.what());
    return static_cast<int>(error.kind());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "headloom: %s\n", error.what());
    return static_cast<int>(headloom::ErrorKind::kFailed);
  }
}
