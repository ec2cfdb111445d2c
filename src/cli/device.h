#pragma once

#include <CLI/CLI.hpp>

#include "ops/backend.h"

namespace headloom {

/// Adds --device and --precision.
void add_device_options(CLI::App& command, BackendChoice& choice);

/// Opens what was asked for; says so on stderr when "auto" fell back to the CPU.
const Ops<float>& open_device(const BackendChoice& choice);

/// "2 threads, avx2", or a card's table.
std::string device_words(const Ops<float>& ops);

}  // namespace headloom
