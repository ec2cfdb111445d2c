#include "headloom/model.h"

#include "cuda/backend.h"
#include "train/generate.h"
#include "train/loaded_model.h"

namespace headloom {

namespace {

const Ops<float>& ops_named(const std::string& device, const std::string& precision) {
  add_cuda_backend();
  return open_device({device, precision});
}

}  // namespace

struct Model::State {
  State(const std::filesystem::path& folder, std::int64_t step, const Ops<float>& ops)
      : loaded(load_model(folder, step)),
        parameters(on_device(loaded, *ops.device)),
        decoder(loaded.config, ops, parameters.data()) {}

  LoadedModel loaded;
  ParameterArray<float> parameters;
  Decoder decoder;
};

Model::Model(const std::string& run, std::int64_t step, const std::string& device,
             const std::string& precision)
    : state_(std::make_unique<State>(run, step, ops_named(device, precision))) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

std::int64_t Model::parameters() const {
  return state_->loaded.layout.count();
}

std::int64_t Model::context() const {
  return state_->loaded.config.context;
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
  headloom::generate(state_->decoder, state_->loaded.tokenizer, sampler, request, emit);
}

std::string Model::generate(const std::string& prompt, const GenerateOptions& options) {
  std::string text;
  stream(prompt, options, [&](std::string_view part) { text += part; });
  return text;
}

}  // namespace headloom
