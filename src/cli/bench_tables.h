#pragma once

#include <CLI/CLI.hpp>

namespace headloom {

/// Adds the sub-benchmarks whose result is a table of cases: attention, heads, projection, scaling.
void add_bench_tables(CLI::App& bench);

}  // namespace headloom
