#include "selftest/selftest.h"

#include <algorithm>
#include <complex>

#include "attention/per_head.h"
#include "base/temporary.h"
#include "model/decode.h"
#include "selftest/tiny_models.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;
using test::TestModel;
using test::Tokens;
using C = std::complex<double>;

std::vector<ModelConfig> shapes() {
  return {test::tiny_gpt2(), test::tiny_andrea(), test::tiny_odd(), test::tiny_llama()};
}

/// Attention of one shape on both tables; the worst difference of out, dq, dk and dv.
std::string compare_attention(std::int64_t seq, std::int64_t dim) {
  constexpr std::int64_t kHeads = 2;
  const std::int64_t width = kHeads * dim, count = seq * width;
  const std::vector<float> qkv = test::random_numbers<float>(3 * count, 1);
  const std::vector<float> dout = test::random_numbers<float>(count, 2);
  std::vector<float> results[2];
  for (int i = 0; i < 2; ++i) {
    const Ops<float>& ops = i == 0 ? cpu_ops() : ref_ops<float>();
    std::vector<float> out(count), lse(kHeads * seq), dqkv(3 * count);
    const auto heads = [&](auto* data, std::int64_t stride) {
      return Heads(data, 1, seq, kHeads, dim, seq * stride, stride);
    };
    const auto part = [&](auto& x, int p) { return heads(x.data() + p * width, 3 * width); };
    ops.attend_forward(
        {part(qkv, 0), part(qkv, 1), part(qkv, 2), heads(out.data(), width), lse.data()});
    ops.attend_backward({part(qkv, 0), part(qkv, 1), part(qkv, 2),
                         heads(static_cast<const float*>(out.data()), width),
                         heads(dout.data(), width), lse.data(), part(dqkv, 0), part(dqkv, 1),
                         part(dqkv, 2)});
    results[i] = out;
    results[i].insert(results[i].end(), dqkv.begin(), dqkv.end());
  }
  const std::string tensor = fmt::format("attention, T {}, head_dim {}", seq, dim);
  return test::compare(tensor.c_str(), results[0], results[1], 1e-5, 0.5);
}

std::string check_attention() {
  for (const std::int64_t seq : {1, 7, 63, 64, 65, 130}) {
    for (const std::int64_t dim : {1, 24, 32, 64, 72, 128}) {
      const std::string problem = compare_attention(seq, dim);
      if (!problem.empty()) return problem;
    }
  }
  return "";
}

/// Gradients of the CPU model against the reference in double precision.
std::string check_model_against_reference() {
  for (const ModelConfig& config : shapes()) {
    const Tokens tokens(3, 7, config.vocab_size);
    TestModel<float> fast(config, cpu_ops(), 3, 7);
    TestModel<double> exact(config, ref_ops<double>(), 3, 7);
    fast.run(tokens.view());
    exact.run(tokens.view());
    for (const ParameterInfo& info : fast.layout.tensors()) {
      const float* given = fast.gradients.data() + info.offset;
      const double* wanted = exact.gradients.data() + info.offset;
      const std::string problem = test::compare(info.name.c_str(), {given, given + info.size()},
                                                {wanted, wanted + info.size()}, 1e-5);
      if (!problem.empty()) return problem;
    }
  }
  return "";
}

std::string check_gradients_by_complex_step() {
  for (const ModelConfig& config : shapes()) {
    const Tokens tokens(1, 5, config.vocab_size);
    TestModel<C> model(config, ref_ops<C>(), 1, 5);
    model.run(tokens.view());
    const double counted = static_cast<double>(tokens.view().counted());
    for (const ParameterInfo& info : model.layout.tensors()) {
      for (std::int64_t i = info.offset; i < info.offset + info.size(); i += 3) {
        C& parameter = model.parameters.data()[i];
        const C kept = parameter;
        parameter += C(0, test::kComplexStep);
        const double slope = model.gpt.loss(tokens.view()).imag() / test::kComplexStep / counted;
        parameter = kept;
        const double given = model.gradients.data()[i].real();
        if (!(std::abs(given - slope) < 1e-11)) {
          return fmt::format("{}[{}]: gradient {}, slope {}", info.name, i - info.offset, given,
                             slope);
        }
      }
    }
  }
  return "";
}

std::string check_cached_decoding() {
  for (const ModelConfig& config : shapes()) {
    TestModel<float> model(config, cpu_ops(), 1, 8);
    const Tokens tokens(1, 8, config.vocab_size);
    std::vector<KvCache<float>> none;
    const Matrix<const float> whole = model.gpt.hidden_states(tokens.inputs.data(), 1, 8, 0, none);
    std::vector<float> logits(static_cast<std::size_t>(8 * config.padded_vocab()));
    model.gpt.logits(whole, {logits.data(), 8, config.padded_vocab()});
    Decoder decoder(config, cpu_ops(), model.parameters.data(), 2);
    for (std::size_t t = 0; t < 8; ++t) {
      const std::span<const float> given = decoder.feed({&tokens.inputs[t], 1});
      const float* wanted = logits.data() + t * static_cast<std::size_t>(config.padded_vocab());
      const std::string problem = test::compare("logits", {given.begin(), given.end()},
                                                {wanted, wanted + given.size()}, 1e-5);
      if (!problem.empty()) return fmt::format("position {}: {}", t, problem);
    }
  }
  return "";
}

std::string check_tokenizer() {
  BpeTrainer trainer;
  trainer.add("the loom weaves the threads and the threads weave the loom");
  const Tokenizer tokenizer = trainer.train(280);
  Encoder encoder(tokenizer);
  Rng rng(1);
  for (int i = 0; i < 200; ++i) {
    std::string text(static_cast<std::size_t>(i), '\0');
    for (char& c : text) c = static_cast<char>(rng.below(256));
    std::vector<std::int32_t> ids;
    encoder.encode(text, ids);
    if (tokenizer.decode(ids) != text) return fmt::format("{} random bytes came back changed", i);
  }
  return "";
}

/// A text, its tokens and a config that trains on them in milliseconds.
class TinyTraining {
 public:
  TinyTraining() {
    std::string text;
    for (int i = 0; i < 300; ++i) text += fmt::format("the loom weaves thread {}. ", i % 37);
    write_file_atomic(folder_.path() / "text", text);
    const Tokenizer tokenizer = Tokenizer::bytes();
    TokenCache::build(folder_.path() / "tokens", {{folder_.path() / "text"}, ""}, tokenizer, 0);
    tokens_ = std::make_unique<TokenCache>(folder_.path() / "tokens", tokenizer.vocab_size());
    config_.model = test::tiny_gpt2();
    config_.model.vocab_size = tokenizer.vocab_size();
    config_.train.batch = 4;
    config_.train.steps = 12;
  }
  const fs::path& folder() const { return folder_.path(); }
  Trainer trainer() const {
    return Trainer(config_, *tokens_, split_corpus(tokens_->size(), config_.model.context, 0.05),
                   cpu_ops());
  }
  static std::vector<double> steps(Trainer& trainer, int count) {
    std::vector<double> losses;
    for (int i = 0; i < count; ++i) losses.push_back(trainer.step().loss);
    return losses;
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<TokenCache> tokens_;
  RunConfig config_;
};

std::string check_determinism() {
  const TinyTraining training;
  Trainer one = training.trainer(), two = training.trainer();
  if (TinyTraining::steps(one, 12) != TinyTraining::steps(two, 12)) return "two runs differ";
  return "";
}

std::string check_resume() {
  const TinyTraining training;
  Trainer whole = training.trainer(), first = training.trainer(), second = training.trainer();
  const std::vector<double> losses = TinyTraining::steps(whole, 12);
  TinyTraining::steps(first, 5);
  load_checkpoint(save_checkpoint(training.folder(), first, 1), second);
  const std::vector<double> rest = TinyTraining::steps(second, 7);
  if (!std::equal(rest.begin(), rest.end(), losses.begin() + 5)) return "the losses differ";
  return "";
}

std::string check_damage() {
  const TinyTraining training;
  Trainer trainer = training.trainer();
  const fs::path folder = save_checkpoint(training.folder(), trainer, 1);
  const std::string good = read_file(folder / "model.safetensors");
  for (std::size_t i = 0; i < good.size(); i += 1 + good.size() / 50) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    write_file_atomic(folder / "model.safetensors", bad);
    try {
      load_checkpoint(folder, trainer);
      return fmt::format("a flipped bit in byte {} went unnoticed", i);
    } catch (const Error&) {
      continue;
    }
  }
  return "";
}

}  // namespace

std::vector<SelfCheck> self_checks() {
  return {{"attention kernels agree with the reference", check_attention},
          {"the CPU model agrees with the reference in double precision",
           check_model_against_reference},
          {"gradients agree with the complex step", check_gradients_by_complex_step},
          {"decoding with a cache agrees with the whole forward", check_cached_decoding},
          {"every byte string survives the tokenizer", check_tokenizer},
          {"the same seed gives bitwise the same run", check_determinism},
          {"a resumed run is bitwise the whole run", check_resume},
          {"damaged checkpoints are refused", check_damage}};
}

}  // namespace headloom
