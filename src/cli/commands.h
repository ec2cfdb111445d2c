#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace headloom {

struct QuestionRequest;

/// The flags that say what heads are examined on, for every command that examines some.
void add_question_options(CLI::App& command, QuestionRequest& request);

/// Each adds one subcommand, whose callback runs it. Training keeps the command line with the run,
/// and may end with an exit code of its own (stopped by a signal).
void add_train_command(CLI::App& app, const std::string& command_line, int* exit_code);
void add_sample_command(CLI::App& app);
void add_params_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_corpus_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_selftest_command(CLI::App& app);
void add_trace_command(CLI::App& app);
void add_heads_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_sweep_command(CLI::App& app, const std::string& command_line);
void add_ablate_command(CLI::App& app);
void add_prune_command(CLI::App& app, const std::string& command_line, int* exit_code);

}  // namespace headloom
