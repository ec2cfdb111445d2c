#pragma once

#include <CLI/CLI.hpp>

#include "ops/backend.h"

namespace headloom {

/// Adds --device and --precision.
void add_device_options(CLI::App& command, BackendChoice& choice);

/// "2 threads, avx2", or a card's table.
std::string device_words(const Ops<float>& ops);

}  // namespace headloom
