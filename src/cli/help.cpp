#include "cli/help.h"

#include <algorithm>

#include "base/fields.h"

namespace headloom {
namespace {

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  std::string description = sub->get_description();
  description = description.substr(0, description.find('\n'));
  std::stringstream out;
  CLI::detail::format_help(out, sub->get_display_name(true), description, column_width_);
  return out.str();
}

std::string suggestion(const CLI::App& app, int argc, char** argv) {
  const CLI::App* command = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (word.starts_with("--")) {
      if (contains(flag_names(*command), word)) continue;
      return fmt::format("unknown flag {}{}", word, did_you_mean(word, flag_names(*command)));
    }
    const std::vector<std::string> subcommands = subcommand_names(*command);
    if (subcommands.empty()) continue;
    if (!contains(subcommands, word)) {
      return fmt::format("unknown command {}{}", word, did_you_mean(word, subcommands));
    }
    command = command->get_subcommand(word);
  }
  return "";
}

std::string bash_completion(const CLI::App& app) {
  std::string script =
      "# bash completion of headloom; use: eval \"$(headloom completion)\"\n"
      "_headloom() {\n"
      "  local words\n"
      "  case \"${COMP_WORDS[1]}\" in\n";
  for (const std::string& name : subcommand_names(app)) {
    const CLI::App& command = *app.get_subcommand(name);
    std::vector<std::string> words = flag_names(command);
    for (const std::string& sub : subcommand_names(command)) words.push_back(sub);
    script += fmt::format("    {}) words=\"{}\" ;;\n", name, fmt::join(words, " "));
  }
  script += fmt::format("    *) words=\"{}\" ;;\n", fmt::join(subcommand_names(app), " "));
  script +=
      "  esac\n"
      "  [ \"$COMP_CWORD\" -eq 1 ] && words=\"" +
      fmt::format("{}", fmt::join(subcommand_names(app), " ")) +
      "\"\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
      "}\n"
      "complete -o default -F _headloom headloom\n";
  return script;
}

}  // namespace headloom
