// Forward, loss and gradients of every shape against PyTorch (tests/golden/README.md).
#include <gtest/gtest.h>

#include "formats/safetensors.h"
#include "selftest/tiny_models.h"

namespace headloom {
namespace {

using test::compare;

constexpr std::int64_t kBatch = 2, kSeq = 11;
// fp32 sums of a few dozen terms through two layers, relative to a tensor's largest value.
constexpr double kLogitsTolerance = 3e-6;
constexpr double kGradientTolerance = 1e-5;

std::vector<float> numbers(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& tensor = file.tensors().at(name);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  file.read_f32(name, tensor.shape, values.data());
  return values;
}

class Golden : public testing::TestWithParam<const char*> {
 protected:
  static ModelConfig config() {
    const std::string shape = GetParam();
    ModelConfig config = shape == "gpt2"     ? test::tiny_gpt2()
                         : shape == "andrea" ? test::tiny_andrea()
                                             : test::tiny_llama();
    config.norm_gain = shape == "gpt2";
    config.head_dim = 0;
    config.vocab_size = 19;
    config.context = 12;
    config.d_model = 16;
    config.n_heads = {4};
    config.d_mlp = 24;
    return config;
  }
  const SafetensorsFile file_{std::string(HEADLOOM_TEST_DATA) + "/golden_" + GetParam() +
                              ".safetensors"};
};

TEST_P(Golden, ForwardLossAndGradientsAgree) {
  const ModelConfig shape = config();
  for (const Ops<float>* ops : {&ref_ops<float>(), &cpu_ops()}) {
    SCOPED_TRACE(ops->name);
    test::TestModel<float> model(shape, *ops, kBatch, kSeq);
    for (const ParameterInfo& info : model.layout.tensors()) {
      file_.read_f32(info.name, info.shape, model.parameters.data() + info.offset);
    }
    test::Tokens tokens(kBatch, kSeq, shape.vocab_size);
    const std::vector<float> inputs = numbers(file_, "inputs"), targets = numbers(file_, "targets");
    tokens.inputs.assign(inputs.begin(), inputs.end());
    tokens.targets.assign(targets.begin(), targets.end());
    EXPECT_NEAR(model.run(tokens.view()), numbers(file_, "loss")[0], 2e-6);
    for (const ParameterInfo& info : model.layout.tensors()) {
      const float* gradient = model.gradients.data() + info.offset;
      EXPECT_EQ("", compare(info.name.c_str(), {gradient, gradient + info.size()},
                            numbers(file_, "grad." + info.name), kGradientTolerance));
    }
    const std::int64_t rows = kBatch * kSeq, padded = shape.padded_vocab();
    std::vector<float> logits(static_cast<std::size_t>(rows * padded)), unpadded;
    model.gpt.logits(model.gpt.workspace().final_norm.row_range(0, rows),
                     {logits.data(), rows, padded});
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = logits.data() + r * padded;
      unpadded.insert(unpadded.end(), row, row + shape.vocab_size);
    }
    EXPECT_EQ("", compare("logits", unpadded, numbers(file_, "logits"), kLogitsTolerance));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Golden, testing::Values("gpt2", "andrea", "llama"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace headloom
