#pragma once

#include <CLI/CLI.hpp>

namespace headloom {

/// Adds the sub-benchmarks whose result is a table of cases: attention, heads, projection, scaling.
void add_bench_tables(CLI::App& bench);

/// Adds the subcommand that gpu-check prints its table with.
void add_bench_device(CLI::App& bench);

}  // namespace headloom
