#include <cerrno>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/device.h"
#include "cli/flags.h"
#include "train/generate.h"
#include "train/loaded_model.h"

namespace headloom {
namespace {

struct SampleArguments {
  std::string run;
  GenerateConfig generate;
  std::int64_t step = -1;
  FlagTexts sampler;
  BackendChoice backend;
};

void sample(const SampleArguments& given) {
  SamplerConfig sampler;
  set_fields_from_text(sampler, given.sampler);
  sampler.validate();
  const Ops<float>& ops = open_device(given.backend);
  LoadedModel model = load_model(given.run, given.step);
  const ParameterArray<float> parameters = on_device(model, *ops.device);
  Decoder decoder(model.config, ops, parameters.data());
  const auto emit = [](std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0) {
      fail("cannot write to standard output: {}", system_message(errno));
    }
  };
  emit(given.generate.prompt);
  generate(decoder, model.tokenizer, sampler, given.generate, emit);
  emit("\n");
}

}  // namespace

void add_sample_command(CLI::App& app) {
  auto given = std::make_shared<SampleArguments>();
  CLI::App* command =
      app.add_subcommand("sample",
                         "Write text with a trained model.\n\n"
                         "  headloom sample runs/mybook --prompt \"Once upon a time\"\n"
                         "  headloom sample runs/mybook --temperature 0 --tokens 50");
  command->add_option("run", given->run, "folder of a run, or of a published GPT-2")->required();
  command->add_option("--prompt", given->generate.prompt, "text to go on from");
  command->add_option("--tokens", given->generate.tokens, "tokens to write")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seed", given->generate.seed, "seed of the random choices");
  command->add_option("--stop", given->generate.stop, "stop before this text");
  command->add_option("--step", given->step, "checkpoint to use (default: the newest)");
  add_flags<SamplerConfig>(*command, "Sampling", given->sampler);
  add_device_options(*command, given->backend);
  command->callback([given] { sample(*given); });
}

}  // namespace headloom
