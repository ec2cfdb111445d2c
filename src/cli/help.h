#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace headloom {

/// Lists subcommands with the first line of their description; their own help has the rest.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* sub) const override;
};

/// For a command line that was not understood: the unknown word with the nearest known one, or an
/// empty string.
std::string suggestion(const CLI::App& app, int argc, char** argv);

/// A completion script for bash that knows every subcommand and flag of the app.
std::string bash_completion(const CLI::App& app);

}  // namespace headloom
