#include "base/fields.h"

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace headloom {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

Json from_toml(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = from_toml(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const auto& value : *array) list.push_back(from_toml(value));
    return list;
  }
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  const auto& where = node.source().begin;
  fail_usage("line {}: dates have no use in a config", where.line);
}

template <class Number>
Number parse_number(const std::string& key, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fields_detail::wrong_type(key, std::string(text), "a number");
  }
  return value;
}

/// One number, or a list "4,4,3" where the field may hold one per layer.
Json parse_integers(const std::string& key, std::string_view text) {
  if (text.find(',') == text.npos) return parse_number<std::int64_t>(key, text);
  Json list = Json::array();
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    list.push_back(parse_number<std::int64_t>(key, text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return list;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 2);
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance || (distance == best_distance && best.empty())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? "" : fmt::format(", did you mean {}?", best);
}

Json parse_toml(std::string_view text, const std::string& file_name) {
  try {
    return from_toml(toml::parse(text));
  } catch (const toml::parse_error& error) {
    const auto& where = error.source().begin;
    fail_usage("{}:{}:{}: {}", file_name, where.line, where.column, error.description());
  }
}

std::string to_toml(const Json& object) {
  std::string text;
  std::string tables;
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      tables += fmt::format("\n[{}]\n{}", key, to_toml(value));
    } else {
      // JSON's strings, numbers, booleans and arrays are TOML, but a float needs its point.
      std::string literal = value.dump();
      if (value.is_number_float() && literal.find_first_of(".en") == literal.npos) literal += ".0";
      text += fmt::format("{} = {}\n", key, literal);
    }
  }
  return text + tables;
}

namespace fields_detail {

void wrong_type(const std::string& key, const Json& value, const char* wanted) {
  fail_usage("{} = {} is not {}", key, value.dump(), wanted);
}

Json text_to_json(const std::string& key, const std::string& text, const Json& sample) {
  if (sample.is_boolean()) {
    if (text == "true" || text == "on" || text == "1") return true;
    if (text == "false" || text == "off" || text == "0") return false;
    wrong_type(key, text, "true or false");
  }
  if (sample.is_number_float()) return parse_number<double>(key, text);
  if (sample.is_number() || sample.is_array()) return parse_integers(key, text);
  return text;
}

void from_json(const std::string& key, const Json& value, std::int64_t& field) {
  if (!value.is_number_integer()) wrong_type(key, value, "a whole number");
  field = value.get<std::int64_t>();
}

void from_json(const std::string& key, const Json& value, double& field) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    wrong_type(key, value, "a finite number");
  }
  field = value.get<double>();
}

void from_json(const std::string& key, const Json& value, bool& field) {
  if (!value.is_boolean()) wrong_type(key, value, "true or false");
  field = value.get<bool>();
}

void from_json(const std::string& key, const Json& value, std::string& field) {
  if (!value.is_string()) wrong_type(key, value, "text");
  field = value.get<std::string>();
}

void from_json(const std::string& key, const Json& value, std::vector<std::int64_t>& field) {
  const Json list = value.is_array() ? value : Json::array({value});
  std::vector<std::int64_t> numbers;
  for (const Json& item : list) {
    if (!item.is_number_integer()) wrong_type(key, value, "a whole number or a list of them");
    numbers.push_back(item.get<std::int64_t>());
  }
  if (numbers.empty()) wrong_type(key, value, "a whole number or a list of them");
  field = std::move(numbers);
}

void from_json(const std::string& key, const Json& value, std::vector<std::string>& field) {
  const Json list = value.is_array() ? value : Json::array({value});
  std::vector<std::string> texts;
  for (const Json& item : list) {
    if (!item.is_string()) wrong_type(key, value, "a text or a list of texts");
    texts.push_back(item.get<std::string>());
  }
  field = std::move(texts);
}

}  // namespace fields_detail
}  // namespace headloom
