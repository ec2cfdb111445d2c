#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "base/fields.h"

namespace headloom {

/// Text of the flags that were given, by field key.
using FlagTexts = std::map<std::string, std::string>;

/// "d_model" as "--d-model".
std::string flag_name(const std::string& key);

/// Adds one flag for every field of a config struct; what the user gives lands in `texts`, and
/// apply_flags puts it over whatever the config held.
template <class Config>
void add_flags(CLI::App& app, const char* group, FlagTexts& texts) {
  const Config defaults;
  Config::visit(defaults, [&](const char* key, const char* help, const auto&) {
    app.add_option_function<std::string>(
           flag_name(key),
           [&texts, name = std::string(key)](const std::string& text) { texts[name] = text; }, help)
        ->group(group);
  });
}

template <class Config>
void apply_flags(Config& config, const FlagTexts& texts) {
  for (const auto& [key, text] : texts) set_field_from_text(config, key, text);
}

}  // namespace headloom
