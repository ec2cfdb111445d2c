#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <string_view>

#include "base/fields.h"

namespace headloom {

/// Text of the flags that were given, by field key.
using FlagTexts = std::map<std::string, std::string>;

/// "d_model" as "--d-model".
std::string flag_name(const std::string& key);

/// Adds a flag for those fields of a config struct that `wanted(key)` picks; what the user gives
/// lands in `texts`.
template <class Config, class Wanted>
void add_some_flags(CLI::App& app, const char* group, FlagTexts& texts, Wanted wanted) {
  const Config defaults;
  Config::visit(defaults, [&](const char* key, const char* help, const auto&) {
    if (!wanted(std::string_view(key))) return;
    const auto keep = [&texts, name = std::string(key)](const std::string& text) {
      texts[name] = text;
    };
    app.add_option_function<std::string>(flag_name(key), keep, help)->group(group);
  });
}

template <class Config>
void add_flags(CLI::App& app, const char* group, FlagTexts& texts) {
  add_some_flags<Config>(app, group, texts, [](std::string_view) { return true; });
}

template <class Config>
void add_flag_for(CLI::App& app, std::string_view key, FlagTexts& texts) {
  add_some_flags<Config>(app, "Options", texts, [&](std::string_view k) { return k == key; });
}

}  // namespace headloom
