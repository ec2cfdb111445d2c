#include <fmt/core.h>

#include <memory>

#include "base/progress.h"
#include "cli/commands.h"
#include "cli/find_model.h"
#include "model/parameters.h"

namespace headloom {
namespace {

struct ParamsArguments {
  std::string model;
  bool json = false;
};

void print_json(const ParameterLayout& layout) {
  Json tensors = Json::array();
  for (const ParameterInfo& info : layout.tensors()) {
    tensors.push_back({{"name", info.name}, {"shape", info.shape}, {"size", info.size()}});
  }
  fmt::print("{}\n", Json({{"total", layout.count()}, {"tensors", tensors}}).dump());
}

void print_parameters(const ParamsArguments& given) {
  const std::string& name = given.model;
  const ModelConfig config = find_model(name);
  config.validate();
  const ParameterLayout layout(config);
  if (given.json) {
    print_json(layout);
    return;
  }
  const std::int64_t total = layout.count();
  fmt::print("{}: d_model {}, {} heads of {}, {} layers, context {}, vocabulary {}\n\n", name,
             config.d_model, fmt::join(config.n_heads, ","), config.head_layout(0).head_dim,
             config.n_layers, config.context, format_count(config.vocab_size));
  fmt::print("{:<16}{:>16}{:>16}{:>9}\n", "group", "per layer", "parameters", "share");
  for (int i = 0; i < static_cast<int>(std::size(EnumNames<ParameterGroup>::kNames)); ++i) {
    const auto group = static_cast<ParameterGroup>(i);
    const std::int64_t count = layout.count(group);
    if (count == 0) continue;
    const bool in_layers = group == ParameterGroup::kAttention || group == ParameterGroup::kMlp;
    const bool even = in_layers && count % config.n_layers == 0;
    fmt::print("{:<16}{:>16}{:>16}{:>8.1f}%\n", enum_name(group),
               even ? format_count(count / config.n_layers) : "", format_count(count),
               100.0 * static_cast<double>(count) / static_cast<double>(total));
  }
  fmt::print("{:<16}{:>16}{:>16}{:>8.1f}%\n", "total", "", format_count(total), 100.0);
}

}  // namespace

void add_params_command(CLI::App& app) {
  auto given = std::make_shared<ParamsArguments>();
  CLI::App* command = app.add_subcommand("params",
                                         "Show where a model's parameters are.\n\n"
                                         "  headloom params andrea-120m\n"
                                         "  headloom params runs/mybook");
  command->add_option("model", given->model, "a preset, a config file or a run's folder")
      ->required();
  command->add_flag("--json", given->json, "every tensor, as one JSON object");
  command->callback([given] { print_parameters(*given); });
}

}  // namespace headloom
