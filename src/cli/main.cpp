#include <cstdio>
#include <exception>

#include "base/error.h"
#include "cli/commands.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app(
      "Headloom grows small GPTs from raw text and shows what every attention head learns.",
      "headloom");
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
  headloom::add_bench_command(app);
  headloom::add_selftest_command(app);
  headloom::add_corpus_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : static_cast<int>(headloom::ErrorKind::kUsage);
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
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
