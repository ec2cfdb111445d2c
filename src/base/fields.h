#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

/// A config struct is declared once: its static `visit(self, visitor)` calls
/// `visitor(key, help, member)` for every field. Parsing, help, TOML, JSON and equality all walk
/// that one list, with JSON as the form in between.
namespace headloom {

using Json = nlohmann::ordered_json;

/// Specialised per enum: `static constexpr std::string_view kNames[]` in the order of enumerators.
template <class E>
struct EnumNames;

template <class E>
std::string_view enum_name(E value) {
  return EnumNames<E>::kNames[static_cast<int>(value)];
}

/// The candidate with the smallest edit distance to `word`; empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// ", did you mean X?" or an empty string.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// Parses TOML into JSON. Errors: kUsage with file, line and column.
Json parse_toml(std::string_view text, const std::string& file_name);

/// Writes an object of scalars, arrays and objects of such as TOML, keys in their order.
std::string to_toml(const Json& object);

namespace fields_detail {

[[noreturn]] void wrong_type(const std::string& key, const Json& value, const char* wanted);
/// A flag's text as the JSON that from_json expects: numbers, booleans and "1,2,3" lists where
/// `sample` (the field's present value) is one, text otherwise.
Json text_to_json(const std::string& key, const std::string& text, const Json& sample);

inline Json to_json(std::int64_t value) {
  return value;
}
inline Json to_json(double value) {
  return value;
}
inline Json to_json(bool value) {
  return value;
}
inline Json to_json(const std::string& value) {
  return value;
}
inline Json to_json(const std::vector<std::string>& values) {
  return values;
}
inline Json to_json(const std::vector<std::int64_t>& values) {
  return values.size() == 1 ? Json(values[0]) : Json(values);
}
template <class E>
requires std::is_enum_v<E> Json to_json(E value) {
  return std::string(enum_name(value));
}

void from_json(const std::string& key, const Json& value, std::int64_t& field);
void from_json(const std::string& key, const Json& value, double& field);
void from_json(const std::string& key, const Json& value, bool& field);
void from_json(const std::string& key, const Json& value, std::string& field);
void from_json(const std::string& key, const Json& value, std::vector<std::int64_t>& field);
void from_json(const std::string& key, const Json& value, std::vector<std::string>& field);
template <class E>
requires std::is_enum_v<E>
void from_json(const std::string& key, const Json& value, E& field) {
  std::vector<std::string> names(std::begin(EnumNames<E>::kNames), std::end(EnumNames<E>::kNames));
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) {
      field = static_cast<E>(i);
      return;
    }
  }
  fail_usage("{} = {} is none of {}{}", key, value.dump(), Json(names).dump(),
             did_you_mean(text, names));
}

}  // namespace fields_detail

/// The enumerator of this name. Errors: kUsage, naming `what`, the text and the nearest name.
template <class E>
E enum_from_text(const std::string& what, const std::string& text) {
  E value{};
  fields_detail::from_json(what, text, value);
  return value;
}

/// All keys of a config, in their order.
template <class Config>
std::vector<std::string> field_keys(const Config& config) {
  std::vector<std::string> keys;
  Config::visit(config, [&](const char* key, const char*, const auto&) { keys.emplace_back(key); });
  return keys;
}

/// The config as a JSON object with every key.
template <class Config>
Json fields_to_json(const Config& config) {
  Json object = Json::object();
  Config::visit(config, [&](const char* key, const char*, const auto& field) {
    object[key] = fields_detail::to_json(field);
  });
  return object;
}

/// Sets one field. Errors: kUsage naming key and value.
template <class Config>
void set_field(Config& config, const std::string& key, const Json& value) {
  bool found = false;
  Config::visit(config, [&](const char* name, const char*, auto& field) {
    if (key != name) return;
    fields_detail::from_json(key, value, field);
    found = true;
  });
  if (!found) fail_usage("unknown key {}{}", key, did_you_mean(key, field_keys(config)));
}

/// Sets one field from the text of a flag.
template <class Config>
void set_field_from_text(Config& config, const std::string& key, const std::string& text) {
  Json sample;
  Config::visit(config, [&](const char* name, const char*, const auto& field) {
    if (key == name) sample = fields_detail::to_json(field);
  });
  set_field(config, key, fields_detail::text_to_json(key, text, sample));
}

/// Sets every field that `texts` has a text for.
template <class Config>
void set_fields_from_text(Config& config, const std::map<std::string, std::string>& texts) {
  for (const auto& [key, text] : texts) set_field_from_text(config, key, text);
}

/// Sets the fields that an object names; the others keep their values. Errors: an unknown key is
/// refused with the nearest known one.
template <class Config>
void fields_from_json(Config& config, const Json& object) {
  for (const auto& [key, value] : object.items()) set_field(config, key, value);
}

}  // namespace headloom
