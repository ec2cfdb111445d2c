#include "headloom/model.h"

#include "train/checkpoint.h"
#include "train/generate.h"

namespace headloom {

struct Model::State {
  State(const std::filesystem::path& run, std::int64_t step)
      : config(read_run_config(run / "config.toml")),
        tokenizer(Tokenizer::load(run / "tokenizer.json")),
        layout(config.model),
        parameters(layout) {
    load_parameters(find_checkpoint(run, step), layout, parameters.data());
    decoder = std::make_unique<Decoder>(config.model, cpu_ops(), parameters.data());
  }

  RunConfig config;
  Tokenizer tokenizer;
  ParameterLayout layout;
  ParameterArray<float> parameters;
  std::unique_ptr<Decoder> decoder;
};

Model::Model(const std::string& run, std::int64_t step)
    : state_(std::make_unique<State>(run, step)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

std::int64_t Model::parameters() const {
  return state_->layout.count();
}

std::int64_t Model::context() const {
  return state_->config.model.context;
}

void Model::stream(const std::string& prompt, const GenerateOptions& options,
                   const std::function<void(std::string_view)>& emit) {
  const SamplerConfig sampler{.repetition_penalty = options.repetition_penalty,
                              .temperature = options.temperature,
                              .top_k = options.top_k,
                              .top_p = options.top_p,
                              .min_p = options.min_p};
  const GenerateConfig request{
      .prompt = prompt, .tokens = options.tokens, .seed = options.seed, .stop = options.stop};
  headloom::generate(*state_->decoder, state_->tokenizer, sampler, request, emit);
}

std::string Model::generate(const std::string& prompt, const GenerateOptions& options) {
  std::string text;
  stream(prompt, options, [&](std::string_view part) { text += part; });
  return text;
}

}  // namespace headloom
