#include "selftest/selftest.h"

#include <algorithm>
#include <complex>

#include "attention/per_head.h"
#include "base/temporary.h"
#include "model/decode.h"
#include "selftest/device_array.h"
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

using test::DeviceArray;

/// What may differ, relative to a tensor's largest magnitude: sums of up to a few hundred fp32
/// terms; operands rounded to 10 and to 7 bits, on two layers.
double tolerance_of(const Ops<float>& ops) {
  const Precision precision = ops.precision;
  return precision == Precision::kFp32 ? 1e-5 : precision == Precision::kTf32 ? 5e-3 : 4e-2;
}

/// Attention of one shape: out, lse, dq, dk, dv, dgate. Fused rows of q, k and v.
struct AttentionCase {
  std::int64_t seq, dim;
  bool gates;
  static constexpr std::int64_t kBatch = 2, kHeads = 4, kKeyHeads = 2;

  using Results = std::vector<std::pair<const char*, std::vector<float>>>;

  Results run(const Ops<float>& ops) const {
    const Device& device = *ops.device;
    const std::int64_t columns = (kHeads + 2 * kKeyHeads) * dim, rows = kBatch * seq;
    const DeviceArray qkv(device, test::random_numbers<float>(rows * columns, 1));
    const DeviceArray dout(device, test::random_numbers<float>(rows * kHeads * dim, 2));
    const DeviceArray out(device, rows * kHeads * dim), dqkv(device, rows * columns);
    const DeviceArray lse(device, rows * kHeads);
    const std::vector<float> gate = {1, 0.5F, 0, -1.25F};
    std::vector<float> dgate(kBatch * kHeads);
    const auto heads = [&](float* data, std::int64_t n, std::int64_t stride) {
      return Heads<float>(data, kBatch, seq, n, dim, seq * stride, stride);
    };
    const auto part = [&](const DeviceArray& x, std::int64_t column, std::int64_t n) {
      return heads(x.data() + column * dim, n, columns);
    };
    const Heads<float> o = heads(out.data(), kHeads, kHeads * dim),
                       d = heads(dout.data(), kHeads, kHeads * dim);
    ops.attend_forward({part(qkv, 0, kHeads), part(qkv, kHeads, kKeyHeads),
                        part(qkv, kHeads + kKeyHeads, kKeyHeads), o, lse.data(),
                        gates ? gate.data() : nullptr});
    ops.attend_backward({part(qkv, 0, kHeads), part(qkv, kHeads, kKeyHeads),
                         part(qkv, kHeads + kKeyHeads, kKeyHeads), o, d, lse.data(),
                         part(dqkv, 0, kHeads), part(dqkv, kHeads, kKeyHeads),
                         part(dqkv, kHeads + kKeyHeads, kKeyHeads), gates ? gate.data() : nullptr,
                         gates ? dgate.data() : nullptr});
    Results results = {{"out", out.read()}, {"lse", lse.read()}, {"dgate", dgate}};
    const std::vector<float> all = dqkv.read();
    const std::int64_t width[] = {kHeads * dim, kKeyHeads * dim, kKeyHeads * dim};
    const char* const names[] = {"dq", "dk", "dv"};
    for (std::int64_t p = 0, column = 0; p < 3; column += width[p++]) {
      std::vector<float> tensor;
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto from = all.begin() + r * columns + column;
        tensor.insert(tensor.end(), from, from + width[p]);
      }
      results.emplace_back(names[p], std::move(tensor));
    }
    return results;
  }
};

std::string check_attention(const Ops<float>& ops) {
  for (const std::int64_t seq : {1, 7, 63, 64, 65, 130}) {
    for (const std::int64_t dim : {1, 24, 32, 64, 72, 128, 130}) {
      const AttentionCase one{seq, dim, seq != 7};
      const AttentionCase::Results given = one.run(ops), wanted = one.run(ref_ops<float>());
      for (std::size_t i = 0; i < given.size(); ++i) {
        // One key leaves a query no choice: dq and dk are rounding then, measured against 0.5.
        const std::string problem = test::compare(given[i].first, given[i].second, wanted[i].second,
                                                  tolerance_of(ops), 0.5);
        if (!problem.empty()) return fmt::format("T {}, head_dim {}: {}", seq, dim, problem);
      }
    }
  }
  return "";
}

/// The head probe on one attention, with two patterns.
std::vector<float> run_probe(const Ops<float>& ops, std::int64_t seq) {
  constexpr std::int64_t kBatch = 2, kHeads = 2, kDim = 12;
  const std::int64_t count = kBatch * seq * kHeads * kDim;
  const DeviceArray q(*ops.device, test::random_numbers<float>(count, 3));
  const DeviceArray k(*ops.device, test::random_numbers<float>(count, 4));
  const DeviceArray out(*ops.device, count), lse(*ops.device, kBatch * kHeads * seq);
  const auto heads = [&](const DeviceArray& x) {
    return Heads<float>(x.data(), kBatch, seq, kHeads, kDim, seq * kHeads * kDim, kHeads * kDim);
  };
  ops.attend_forward({heads(q), heads(k), heads(k), heads(out), lse.data()});
  std::vector<std::int32_t> begin = {0}, previous, early;
  for (std::int64_t row = 0; row < kBatch * seq; ++row) {  // every second row has keys
    const auto t = static_cast<std::int32_t>(row % seq);
    if (row % 2 == 1 && t > 0) {
      previous.push_back(t - 1);
      early.push_back(0);
    }
    begin.push_back(static_cast<std::int32_t>(previous.size()));
  }
  const KeySet sets[] = {{begin.data(), previous.data()}, {begin.data(), early.data()}};
  std::vector<float> all((4 + kHeadShapes) * kBatch * kHeads);
  ops.attend_probe({.q = heads(q),
                    .k = heads(k),
                    .lse = lse.data(),
                    .sets = sets,
                    .n_sets = 2,
                    .mass = all.data(),
                    .hits = all.data() + 2 * kBatch * kHeads,
                    .shape = all.data() + 4 * kBatch * kHeads});
  return all;
}

std::string check_probe(const Ops<float>& ops) {
  for (const std::int64_t seq : {2, 17, 140}) {
    const std::vector<float> given = run_probe(ops, seq), wanted = run_probe(ref_ops<float>(), seq);
    constexpr std::int64_t kPlaces = 4;  // (batch, head): every quantity is compared by itself
    for (auto i = given.begin(), w = wanted.begin(); i != given.end(); i += kPlaces, w += kPlaces) {
      const std::string problem =
          test::compare("head probe", {i, i + kPlaces}, {w, w + kPlaces}, tolerance_of(ops), 0.1);
      if (!problem.empty()) return fmt::format("T {}, {}: {}", seq, i - given.begin(), problem);
    }
  }
  return "";
}

/// Gradients of the device's model against the reference in double precision.
std::string check_model_against_reference(const Ops<float>& ops) {
  for (const ModelConfig& config : shapes()) {
    const Tokens tokens(3, 7, config.vocab_size);
    TestModel<float> fast(config, ops, 3, 7);
    TestModel<double> exact(config, ref_ops<double>(), 3, 7);
    fast.run(tokens.view());
    exact.run(tokens.view());
    const HostNumbers<float> gradients = fast.gradients.on_host();
    for (const ParameterInfo& info : fast.layout.tensors()) {
      const float* given = gradients.data() + info.offset;
      const double* wanted = exact.gradients.data() + info.offset;
      const std::string problem = test::compare(info.name.c_str(), {given, given + info.size()},
                                                {wanted, wanted + info.size()}, tolerance_of(ops));
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

std::string check_cached_decoding(const Ops<float>& ops) {
  for (const ModelConfig& config : shapes()) {
    TestModel<float> model(config, ops, 1, 8);
    const Tokens tokens(1, 8, config.vocab_size);
    std::vector<KvCache<float>> none;
    const Matrix<const float> whole = model.gpt.hidden_states(tokens.inputs.data(), 1, 8, 0, none);
    const DeviceArray logits(*ops.device, 8 * config.padded_vocab());
    model.gpt.logits(whole, {logits.data(), 8, config.padded_vocab()});
    const std::vector<float> all = logits.read();
    Decoder decoder(config, ops, model.parameters.data(), 2);
    for (std::size_t t = 0; t < 8; ++t) {
      const std::span<const float> given = decoder.feed({&tokens.inputs[t], 1});
      const float* wanted = all.data() + t * static_cast<std::size_t>(config.padded_vocab());
      const std::string problem = test::compare("logits", {given.begin(), given.end()},
                                                {wanted, wanted + given.size()}, tolerance_of(ops));
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
  explicit TinyTraining(const ModelConfig& model = test::tiny_gpt2()) {
    std::string text;
    for (int i = 0; i < 300; ++i) text += fmt::format("the loom weaves thread {}. ", i % 37);
    write_file_atomic(folder_.path() / "text", text);
    const Tokenizer tokenizer = Tokenizer::bytes();
    TokenCache::build(folder_.path() / "tokens", {{folder_.path() / "text"}, ""}, tokenizer, 0);
    tokens_ = std::make_unique<TokenCache>(folder_.path() / "tokens", tokenizer.vocab_size());
    config_.model = model;
    config_.model.vocab_size = tokenizer.vocab_size();
    config_.model.context = 8;
    config_.train.batch = 2;
    config_.train.steps = 20;
    config_.train.warmup = 5;
    config_.train.learning_rate = 1e-2;
    config_.train.clip = 0.5;
  }
  const fs::path& folder() const { return folder_.path(); }
  Trainer trainer(const Ops<float>& ops) const {
    return Trainer(config_, *tokens_, split_corpus(tokens_->size(), config_.model.context, 0.05),
                   ops);
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

std::string check_determinism(const Ops<float>& ops) {
  const TinyTraining training;
  Trainer one = training.trainer(ops), two = training.trainer(ops);
  if (TinyTraining::steps(one, 8) != TinyTraining::steps(two, 8)) return "two runs differ";
  return "";
}

std::string check_resume(const Ops<float>& ops) {
  const TinyTraining training;
  Trainer whole = training.trainer(ops), first = training.trainer(ops),
          second = training.trainer(ops);
  const std::vector<double> losses = TinyTraining::steps(whole, 8);
  TinyTraining::steps(first, 5);
  load_checkpoint(save_checkpoint(training.folder(), first, 1), second);
  const std::vector<double> rest = TinyTraining::steps(second, 3);
  if (!std::equal(rest.begin(), rest.end(), losses.begin() + 5)) return "the losses differ";
  return "";
}

/// 20 steps of a tiny model of each shape beside the CPU; clipping and decay at work.
std::string check_training(const Ops<float>& ops) {
  // The bar of fp32; with rounded operands the two drift apart by what a step's rounding moves.
  const double tolerance = ops.precision == Precision::kFp32 ? 1e-4 : 5e-2;
  for (const ModelConfig& config : shapes()) {
    const TinyTraining training(config);
    Trainer here = training.trainer(cpu_ops()), there = training.trainer(ops);
    const std::vector<double> wanted = TinyTraining::steps(here, 20),
                              given = TinyTraining::steps(there, 20);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!(std::abs(given[i] - wanted[i]) < tolerance)) {
        return fmt::format("step {}: loss {} on {}, {} on the CPU", i + 1, given[i], ops.name,
                           wanted[i]);
      }
    }
    if (!(given.back() < 0.9 * given.front())) return fmt::format("{} learns nothing", ops.name);
  }
  return "";
}

std::string check_damage() {
  const TinyTraining training;
  Trainer trainer = training.trainer(cpu_ops());
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

std::vector<SelfCheck> self_checks(const Ops<float>& ops) {
  const auto on_device = [&ops](std::string (*check)(const Ops<float>&)) {
    return [check, &ops] { return check(ops); };
  };
  std::vector<SelfCheck> checks = {
      {"attention kernels agree with the reference", on_device(check_attention)},
      {"the head probe agrees with the reference", on_device(check_probe)},
      {"the model agrees with the reference in double precision",
       on_device(check_model_against_reference)},
      {"gradients agree with the complex step", check_gradients_by_complex_step},
      {"decoding with a cache agrees with the whole forward", on_device(check_cached_decoding)},
      {"every byte string survives the tokenizer", check_tokenizer},
      {"the same seed gives bitwise the same run", on_device(check_determinism)},
      {"a resumed run is bitwise the whole run", on_device(check_resume)},
      {"damaged checkpoints are refused", check_damage}};
  if (!ops.device->is_host) {
    checks.push_back(
        {"twenty steps of training have the losses of the CPU", on_device(check_training)});
  }
  return checks;
}

}  // namespace headloom
