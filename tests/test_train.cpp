// Training: the schedule, accumulation, resuming bitwise, checkpoints and what happens to damaged
// ones, sampling.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/temporary.h"
#include "formats/safetensors.h"
#include "selftest/tiny_models.h"
#include "train/checkpoint.h"
#include "train/generate.h"
#include "train/hugging_face.h"
#include "train/loaded_model.h"
#include "train/metrics.h"
#include "train/tensorboard.h"
#include "train/trainer.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

/// A folder with a tokenized text and a config that trains on it in milliseconds a step.
struct TinyRun {
  TemporaryFolder folder;
  Tokenizer tokenizer = Tokenizer::bytes();
  RunConfig config;

  TinyRun() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "the loom weaves thread " + std::to_string(i % 37) + ". ";
    write_file_atomic(folder.path() / "text.txt", text);
    TokenCache::build(cache(), {{folder.path() / "text.txt"}, ""}, tokenizer, 1);
    config.model = test::tiny_gpt2();
    config.model.vocab_size = tokenizer.vocab_size();
    config.model.context = 16;
    config.train.steps = 20;
    config.train.batch = 4;
    config.train.warmup = 3;
    config.train.learning_rate = 1e-2;
    config.train.eval_windows = 8;
    config.data.corpus = {(folder.path() / "text.txt").string()};
  }
  fs::path cache() const { return folder.path() / "tokens.bin"; }
};

/// A trainer with the tokens it reads.
struct Training {
  TokenCache tokens;
  Trainer trainer;

  explicit Training(const TinyRun& tiny)
      : tokens(tiny.cache(), tiny.config.model.vocab_size),
        trainer(tiny.config, tokens,
                split_corpus(tokens.size(), tiny.config.model.context,
                             tiny.config.train.validation_fraction),
                cpu_ops()) {}

  std::vector<double> steps(int count) {
    std::vector<double> losses;
    for (int i = 0; i < count; ++i) losses.push_back(trainer.step().loss);
    return losses;
  }
  std::vector<float> parameters() const {
    return {trainer.parameters().data(), trainer.parameters().data() + trainer.layout().stored()};
  }
};

TEST(Schedule, WarmsUpFromTheFirstStepAndEndsAtTheFloor) {
  TrainConfig config;
  config.steps = 100;
  config.warmup = 10;
  config.learning_rate = 1.0;
  config.min_lr_fraction = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 10), 1.0);
  EXPECT_NEAR(learning_rate_at(config, 55), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate_at(config, 99), 0.1, 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1000), 0.1);
  config.decay_steps = 50;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 50), 0.1);
  config.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 0), 1.0);
}

TEST(Trainer, LossFallsAndRepeatsBitwise) {
  const TinyRun tiny;
  Training one(tiny), two(tiny);
  const std::vector<double> losses = one.steps(20);
  EXPECT_LT(losses.back(), losses.front() - 1.0);
  EXPECT_EQ(losses, two.steps(20));
  EXPECT_EQ(one.parameters(), two.parameters());
  TinyRun other;
  other.config.train.seed = 2;
  EXPECT_NE(Training(other).steps(1), Training(tiny).steps(1));
}

TEST(Trainer, EvaluationChangesNothing) {
  const TinyRun tiny;
  Training one(tiny), two(tiny);
  const Evaluation first = one.trainer.evaluate(), second = one.trainer.evaluate();
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.targets, 8 * 16);
  EXPECT_EQ(one.steps(3), two.steps(3));
}

TEST(Trainer, AccumulationEqualsTheFullBatch) {
  TinyRun whole, parts;
  parts.config.train.batch = 1;
  parts.config.train.grad_accum = 4;
  Training one(whole), two(parts);
  const StepMetrics a = one.trainer.step(), b = two.trainer.step();
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_NEAR(a.loss, b.loss, 1e-5);
  EXPECT_NEAR(a.gradient_norm / b.gradient_norm, 1.0, 1e-5);
  for (const ParameterInfo& info : one.trainer.layout().tensors()) {
    const auto tensor = [&](const float* base) {
      return std::vector<float>(base + info.offset, base + info.offset + info.size());
    };
    // The same terms, added in another order.
    EXPECT_EQ("", test::compare(info.name.c_str(), tensor(two.trainer.gradients().data()),
                                tensor(one.trainer.gradients().data()), 1e-5));
  }
}

/// Resident memory of this process, in pages.
std::int64_t resident_pages() {
  std::ifstream in("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  in >> size >> resident;
  return resident;
}

TEST(Trainer, MemoryStaysFlat) {
  const TinyRun tiny;
  Training run(tiny);
  const int steps = std::getenv("HEADLOOM_SOAK") != nullptr ? 10'000 : 500;
  run.steps(100);
  // Half a megabyte for what the allocator may round up; a leak of one float a step shows at 10,000
  // steps only in larger tensors, a leak of one batch already here. A thread that runs its first
  // large task late takes its scratch memory late, once; a leak grows in every stretch.
  std::int64_t grown = 0;
  for (int stretch = 0; stretch < 4; ++stretch) {
    const std::int64_t before = resident_pages();
    run.steps(steps);
    grown = resident_pages() - before;
    if (grown <= 128) break;
  }
  EXPECT_LE(grown, 128);
}

TEST(Trainer, ClipsToTheNorm) {
  TinyRun tiny;
  tiny.config.train.clip = 0.01;
  Training run(tiny);
  const StepMetrics metrics = run.trainer.step();
  EXPECT_GT(metrics.gradient_norm, 0.01);
  EXPECT_NEAR(metrics.clip_factor * metrics.gradient_norm, 0.01, 1e-9);
}

TEST(Trainer, StopsWhenSomethingIsNotFiniteAndKeepsTheWeights) {
  const TinyRun tiny;
  Training run(tiny);
  run.steps(2);
  const ParameterInfo& info = run.trainer.layout().tensors()[4];
  run.trainer.parameters().data()[info.offset + 3] = NAN;
  const std::vector<float> before = run.parameters();
  try {
    run.trainer.step();
    FAIL() << "a NaN was trained on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDiverged);
    const std::string message = error.what();
    EXPECT_NE(message.find("step 3"), std::string::npos) << message;
    EXPECT_NE(message.find(info.name), std::string::npos) << message;
  }
  const std::vector<float> after = run.parameters();
  EXPECT_EQ(std::memcmp(before.data(), after.data(), before.size() * sizeof(float)), 0);
}

TEST(Checkpoint, ResumingIsBitwiseTheSameRun) {
  const TinyRun tiny;
  Training whole(tiny), first(tiny), second(tiny);
  const std::vector<double> losses = whole.steps(20);
  first.steps(7);
  const fs::path saved = save_checkpoint(tiny.folder.path(), first.trainer, 3);
  EXPECT_EQ(saved.filename(), "step-00000007");
  EXPECT_EQ(fs::read_symlink(tiny.folder.path() / "latest"), "checkpoints/step-00000007");
  load_checkpoint(find_checkpoint(tiny.folder.path()), second.trainer);
  EXPECT_EQ(second.trainer.steps_done(), 7);
  EXPECT_EQ(second.steps(13), std::vector<double>(losses.begin() + 7, losses.end()));
  EXPECT_EQ(second.parameters(), whole.parameters());
}

TEST(Checkpoint, OldOnesGoByNumber) {
  const TinyRun tiny;
  Training run(tiny);
  for (int i = 0; i < 5; ++i) {
    run.steps(1);
    save_checkpoint(tiny.folder.path(), run.trainer, 2);
  }
  std::vector<std::string> names;
  for (const fs::path& path : list_checkpoints(tiny.folder.path()))
    names.push_back(path.filename());
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000005", "step-00000004"}));
  // Past eight digits names grow, and sort before shorter ones as text.
  const fs::path parent = tiny.folder.path() / "checkpoints";
  fs::rename(parent / "step-00000004", parent / "step-100000000");
  fs::rename(parent / "step-00000005", parent / "step-99999999");
  EXPECT_EQ(find_checkpoint(tiny.folder.path()).filename(), "step-100000000");
  EXPECT_EQ(find_checkpoint(tiny.folder.path(), 99999999).filename(), "step-99999999");
  EXPECT_THROW(find_checkpoint(tiny.folder.path(), 1), Error);
}

TEST(Checkpoint, UnfinishedOnesAreNotFound) {
  const TinyRun tiny;
  Training run(tiny);
  run.steps(1);
  save_checkpoint(tiny.folder.path(), run.trainer, 2);
  const fs::path parent = tiny.folder.path() / "checkpoints";
  // What a kill in the middle of a save leaves behind.
  fs::create_directories(parent / "step-00000009.tmp");
  write_file_atomic(parent / "step-00000009.tmp" / "model.safetensors", "half");
  EXPECT_EQ(find_checkpoint(tiny.folder.path()).filename(), "step-00000001");
  run.steps(1);
  save_checkpoint(tiny.folder.path(), run.trainer, 2);
  EXPECT_EQ(find_checkpoint(tiny.folder.path()).filename(), "step-00000002");
}

TEST(Checkpoint, AnotherModelsTensorsAreNamed) {
  const TinyRun tiny;
  Training run(tiny);
  const fs::path folder = save_checkpoint(tiny.folder.path(), run.trainer, 1);
  const auto message = [&](const ModelConfig& config) {
    const ParameterLayout layout(config);
    const ParameterArray<float> parameters(layout);
    try {
      load_parameters(folder, layout, parameters.data());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  ModelConfig untied = tiny.config.model, wide = tiny.config.model, shallow = tiny.config.model;
  EXPECT_EQ(message(untied), "no error");
  untied.tied = false;
  EXPECT_NE(message(untied).find("tensors, the config wants"), std::string::npos);
  shallow.n_layers = 1;
  EXPECT_NE(message(shallow).find("tensors, the config wants"), std::string::npos);
  wide.d_mlp = 20;
  EXPECT_NE(message(wide).find("mlp.c_fc.weight is F32 [8, 12], wanted F32 [8, 20]"),
            std::string::npos)
      << message(wide);
}

TEST(Checkpoint, AMappedFileIsNeverOverwritten) {
  const TinyRun tiny;
  Training run(tiny);
  const fs::path folder = save_checkpoint(tiny.folder.path(), run.trainer, 1);
  const MappedFile mapped(folder / "model.safetensors");
  const std::string before(mapped.text());
  run.trainer.parameters().data()[0] += 1.0F;
  save_checkpoint(tiny.folder.path(), run.trainer, 1);  // the same step once more
  EXPECT_EQ(mapped.text(), before);
  EXPECT_NE(read_file(folder / "model.safetensors"), before);
}

TEST(Checkpoint, AFlippedBitAnywhereIsNoticed) {
  const TinyRun tiny;
  Training run(tiny);
  run.steps(1);
  const fs::path folder = save_checkpoint(tiny.folder.path(), run.trainer, 2);
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string good = read_file(folder / name);
    // Every bit of the state and of the headers, a sample of the numbers.
    const std::size_t dense = std::string(name) == "state.json" ? 8 * good.size() : 8 * 64;
    for (std::size_t bit = 0; bit < 8 * good.size();
         bit += bit < dense ? 1 : 8 * good.size() / 97 + 1) {
      const std::size_t i = bit / 8;
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << (bit % 8)));
      write_file_atomic(folder / name, bad);
      try {
        load_checkpoint(folder, run.trainer);
        ADD_FAILURE() << name << ": flipping bit " << bit << " went unnoticed";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
      }
    }
    write_file_atomic(folder / name, good);
  }
  load_checkpoint(folder, run.trainer);
}

TEST(Checkpoint, GoesToTransformersByNameAndShape) {
  const TinyRun tiny;
  Training run(tiny);
  const fs::path folder = save_checkpoint(tiny.folder.path(), run.trainer, 1);
  const Json config = Json::parse(read_file(folder / "config.json"));
  EXPECT_EQ(config["model_type"], "gpt2");
  EXPECT_EQ(config["activation_function"], "gelu_new");
  EXPECT_EQ(config["n_embd"], 8);
  EXPECT_EQ(config["n_inner"], 12);
  EXPECT_TRUE(config["tie_word_embeddings"].get<bool>());
  // GPT2LMHeadModel's names and shapes; linear weights are [in, out] there.
  const std::map<std::string, std::vector<std::int64_t>> block = {
      {"ln_1.weight", {8}},           {"ln_1.bias", {8}},
      {"ln_2.weight", {8}},           {"ln_2.bias", {8}},
      {"attn.c_attn.bias", {24}},     {"attn.c_attn.weight", {8, 24}},
      {"attn.c_proj.weight", {8, 8}}, {"attn.c_proj.bias", {8}},
      {"mlp.c_fc.weight", {8, 12}},   {"mlp.c_fc.bias", {12}},
      {"mlp.c_proj.weight", {12, 8}}, {"mlp.c_proj.bias", {8}}};
  std::map<std::string, std::vector<std::int64_t>> wanted = {{"transformer.wte.weight", {257, 8}},
                                                             {"transformer.wpe.weight", {16, 8}},
                                                             {"transformer.ln_f.weight", {8}},
                                                             {"transformer.ln_f.bias", {8}}};
  for (int layer = 0; layer < 2; ++layer) {
    for (const auto& [name, shape] : block) {
      wanted[fmt::format("transformer.h.{}.{}", layer, name)] = shape;
    }
  }
  std::map<std::string, std::vector<std::int64_t>> given;
  const SafetensorsFile file(folder / "model.safetensors");
  for (const auto& [name, tensor] : file.tensors()) given[name] = tensor.shape;
  EXPECT_EQ(given, wanted);
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

/// A GPT-2 in a folder of its own, in one of the ways in which others save it.
struct PublishedGpt2 {
  TemporaryFolder folder;
  ModelConfig config = test::tiny_gpt2();
  std::vector<float> parameters;

  PublishedGpt2() {
    config.vocab_size = 257;
    config.context = 16;
    const ParameterLayout layout(config);
    parameters = test::random_numbers<float>(layout.stored(), 5);
    Tokenizer::bytes().save(folder.path() / "tokenizer.json");
  }
  /// `prefix` stands before every name; `linear` turns the matrices of linear layers round.
  void write(const std::string& prefix, bool linear, bool masks, bool head) {
    const ParameterLayout layout(config);
    std::vector<TensorToWrite> tensors;
    std::vector<std::vector<float>> turned;
    turned.reserve(layout.tensors().size());
    for (const ParameterInfo& info : layout.tensors()) {
      const std::string inner = "transformer.";
      const bool is_inner = info.name.starts_with(inner);
      tensors.push_back({is_inner ? prefix + info.name.substr(inner.size()) : info.name, info.shape,
                         parameters.data() + info.offset});
      if (!linear || info.layer < 0 || info.shape.size() != 2) continue;
      const auto in = static_cast<std::size_t>(info.shape[0]);
      const auto out = static_cast<std::size_t>(info.shape[1]);
      std::vector<float>& transposed = turned.emplace_back(in * out);
      for (std::size_t i = 0; i < in; ++i) {
        for (std::size_t j = 0; j < out; ++j) {
          transposed[j * in + i] = tensors.back().data[i * out + j];
        }
      }
      tensors.back().shape = {info.shape[1], info.shape[0]};
      tensors.back().data = transposed.data();
    }
    const std::vector<float> mask(256, 1.0F);
    for (int layer = 0; masks && layer < config.n_layers; ++layer) {
      const std::string block = fmt::format("{}h.{}.attn.", prefix, layer);
      tensors.push_back({block + "bias", {1, 1, 16, 16}, mask.data()});
      tensors.push_back({block + "masked_bias", {1}, mask.data()});
    }
    if (head) tensors.push_back({"lm_head.weight", {257, config.d_model}, parameters.data()});
    for (const TensorToWrite& extra : extras) tensors.push_back(extra);
    write_safetensors(folder.path() / "model.safetensors", tensors, {});
    write_file_atomic(folder.path() / "config.json", hugging_face_config(config, 256).dump());
  }
  std::vector<TensorToWrite> extras;
};

TEST(PublishedModel, IsReadInEveryFormInWhichItIsFound) {
  PublishedGpt2 published;
  for (const char* prefix : {"transformer.", ""}) {
    for (const bool linear : {false, true}) {
      for (const bool masks : {false, true}) {
        for (const bool head : {false, true}) {
          SCOPED_TRACE(
              fmt::format("prefix '{}' linear {} masks {} head {}", prefix, linear, masks, head));
          published.write(prefix, linear, masks, head);
          const LoadedModel model = load_model(published.folder.path());
          EXPECT_EQ(fields_to_json(model.config)["tied"], true);
          EXPECT_EQ(model.tokenizer.vocab_size(), 257);
          for (const ParameterInfo& info : model.layout.tensors()) {
            for (std::int64_t i = info.offset; i < info.offset + info.size(); ++i) {
              ASSERT_EQ(model.parameters.data()[i],
                        published.parameters[static_cast<std::size_t>(i)])
                  << info.name;
            }
          }
        }
      }
    }
  }
}

TEST(PublishedModel, AnUntiedHeadIsReadAndAMissingOneMeansTied) {
  PublishedGpt2 published;
  published.config.tied = false;
  const ParameterLayout layout(published.config);
  published.parameters = test::random_numbers<float>(layout.stored(), 6);
  published.write("", false, false, false);  // with the layout's own lm_head.weight
  const LoadedModel untied = load_model(published.folder.path());
  EXPECT_FALSE(untied.config.tied);
  const ParameterInfo& head = layout.tensors().back();
  ASSERT_EQ(head.name, "lm_head.weight");
  EXPECT_EQ(untied.parameters.data()[head.offset + 7],
            published.parameters[static_cast<std::size_t>(head.offset + 7)]);
  published.config.tied = true;
  published.write("", false, false, false);
  published.config.tied = false;
  write_file_atomic(published.folder.path() / "config.json",
                    hugging_face_config(published.config, 256).dump());
  EXPECT_TRUE(load_model(published.folder.path()).config.tied);
}

TEST(PublishedModel, AVocabularyBeyondTheTokenizersIsNeverSampled) {
  PublishedGpt2 published;
  published.config.vocab_size = 300;  // rounded up, as some trainers do
  const ParameterLayout layout(published.config);
  published.parameters = test::random_numbers<float>(layout.stored(), 6);
  published.write("transformer.", false, false, false);
  LoadedModel model = load_model(published.folder.path());
  Decoder decoder(model.config, cpu_ops(), model.parameters.data());
  const GenerateConfig request{.prompt = "a", .tokens = 400};
  const SamplerConfig sampler{.temperature = 5};
  std::string text;
  EXPECT_NO_THROW(generate(decoder, model.tokenizer, sampler, request,
                           [&](std::string_view part) { text += part; }));
}

TEST(PublishedModel, WhatDoesNotFitIsNamed) {
  const auto message = [](const PublishedGpt2& published) {
    try {
      load_model(published.folder.path());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  PublishedGpt2 published;
  EXPECT_NE(message(published).find("holds no model"), std::string::npos) << message(published);
  published.extras = {{"transformer.h.9.ln_1.weight", {8}, published.parameters.data()}};
  published.write("transformer.", false, false, false);
  EXPECT_NE(message(published).find("transformer.h.9.ln_1.weight"), std::string::npos)
      << message(published);
  published.extras.clear();
  published.config.n_layers = 1;
  published.write("", false, false, false);
  published.config.n_layers = 2;
  write_file_atomic(published.folder.path() / "config.json",
                    hugging_face_config(published.config, 256).dump());
  EXPECT_NE(message(published).find("h.1.ln_1"), std::string::npos) << message(published);
  Json scaled = hugging_face_config(published.config, 256);
  scaled["scale_attn_by_inverse_layer_idx"] = true;
  write_file_atomic(published.folder.path() / "config.json", scaled.dump());
  EXPECT_NE(message(published).find("scale_attn_by_inverse_layer_idx true is not supported"),
            std::string::npos)
      << message(published);
  write_file_atomic(published.folder.path() / "config.json", R"({"model_type": "llama"})");
  EXPECT_NE(message(published).find("llama"), std::string::npos) << message(published);
}

TEST(Metrics, LinesAreWholeAndNonFiniteNumbersAreNull) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    file.write({{"step", 1}, {"loss", 2.5}});
    file.write({{"step", 2}, {"loss", NAN}});
  }
  EXPECT_EQ(read_file(path),
            "{\"step\":1,\"loss\":2.5}\n{\"step\":2,\"loss\":null,\"nonfinite\":true}\n");
  // A crash left half a line and a step that will be done again.
  write_file_atomic(path, read_file(path) + "{\"step\":3,\"lo");
  { MetricsFile file(path, 1); }
  EXPECT_EQ(read_file(path), "{\"step\":1,\"loss\":2.5}\n");
}

TEST(TensorBoard, RecordsAreFramedAndChecked) {
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283U);  // the check value of CRC-32C
  const TemporaryFolder folder;
  { EventFile(folder.path(), 0).write(7, {{"loss", 2.5}}); }
  const std::string bytes = read_file(fs::directory_iterator(folder.path())->path());
  std::vector<std::string> events;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    ASSERT_LE(at + 16 + length, bytes.size());
    std::uint32_t stored = 0;
    std::memcpy(&stored, bytes.data() + at + 12 + length, sizeof(stored));
    const std::uint32_t crc = crc32c(bytes.data() + at + 12, length);
    EXPECT_EQ(stored, ((crc >> 15) | (crc << 17)) + 0xA282EAD8U);
    events.push_back(bytes.substr(at + 12, length));
    at += 16 + length;
  }
  ASSERT_EQ(events.size(), 2U);
  EXPECT_NE(events[0].find("brain.Event:2"), std::string::npos);
  EXPECT_NE(events[1].find("loss"), std::string::npos);
}

std::string generated(const TinyRun& tiny, const Trainer& trainer, const GenerateConfig& request,
                      const SamplerConfig& sampler) {
  Decoder decoder(tiny.config.model, cpu_ops(), trainer.parameters().data());
  std::string text;
  generate(decoder, tiny.tokenizer, sampler, request, [&](std::string_view part) { text += part; });
  return text;
}

TEST(Generate, RepetitionIsMeasured) {
  std::vector<std::int32_t> loop, text;
  for (std::int32_t i = 0; i < 60; ++i) {
    loop.push_back(i % 3);
    text.push_back(i);
  }
  EXPECT_NEAR(repeated_share(loop), 54.0 / 57, 1e-12);  // all runs of four but the first three
  EXPECT_EQ(repeated_share(text), 0.0);
  EXPECT_EQ(repeated_share(std::span(loop).first(3)), 0.0);
}

TEST(Generate, GoesOnBeyondTheContextAndRepeatsWithItsSeed) {
  const TinyRun tiny;
  Training run(tiny);
  run.steps(20);
  SamplerConfig sampler;
  GenerateConfig request{.prompt = "the loom", .tokens = 100, .seed = 3};
  const std::string text = generated(tiny, run.trainer, request, sampler);
  EXPECT_GT(text.size(), 50U);
  EXPECT_EQ(text, generated(tiny, run.trainer, request, sampler));
  request.seed = 4;
  EXPECT_NE(text, generated(tiny, run.trainer, request, sampler));
  request.prompt = std::string(16, 'x');
  EXPECT_THROW(generated(tiny, run.trainer, request, sampler), Error);
}

TEST(Generate, StopsBeforeTheStopText) {
  const TinyRun tiny;
  Training run(tiny);
  run.steps(20);
  const SamplerConfig greedy{.temperature = 0};
  GenerateConfig request{.prompt = "the", .tokens = 60};
  const std::string text = generated(tiny, run.trainer, request, greedy);
  request.stop = text.substr(20, 4);
  EXPECT_EQ(generated(tiny, run.trainer, request, greedy), text.substr(0, text.find(request.stop)));
}

TEST(Sampler, FiltersAndRefusals) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.9F, -INFINITY};
  Rng rng(1);
  const auto counts = [&](const SamplerConfig& config, std::vector<std::int32_t> seen = {}) {
    std::vector<int> count(4, 0);
    for (int i = 0; i < 2000; ++i) {
      ++count[static_cast<std::size_t>(sample_token(logits, seen, config, rng))];
    }
    return count;
  };
  EXPECT_EQ(counts({.temperature = 0})[1], 2000);
  EXPECT_EQ(counts({.temperature = 1, .top_k = 2})[0], 0);
  EXPECT_EQ(counts({.temperature = 1, .top_p = 0.4})[1], 2000);
  EXPECT_EQ(counts({.temperature = 1, .min_p = 0.5})[0], 0);
  EXPECT_EQ(counts({.repetition_penalty = 1.2, .temperature = 0}, {1})[2], 2000);
  const std::vector<int> plain = counts({.temperature = 1});
  EXPECT_EQ(plain[3], 0);
  // Probabilities 0.066, 0.490, 0.443; 2000 draws scatter by about 22.
  EXPECT_NEAR(plain[1], 980, 110);
  EXPECT_NEAR(plain[0], 133, 60);
  const SamplerConfig bad{.repetition_penalty = 0.5, .temperature = NAN, .top_p = 2};
  try {
    bad.validate();
    FAIL();
  } catch (const Error& error) {
    for (const char* key : {"temperature", "top_p", "repetition_penalty"}) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  }
  const std::vector<float> broken = {0.0F, NAN};
  EXPECT_THROW(sample_token(broken, {}, {}, rng), Error);
}

}  // namespace
}  // namespace headloom
