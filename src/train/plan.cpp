#include "train/plan.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/threads.h"
#include "model/parameters.h"
#include "model/workspace.h"
#include "ops/backend.h"

namespace headloom {
namespace {

constexpr std::int64_t kFloat = sizeof(float);

/// What the kernels take beside the workspace: every thread the larger of a block of a
/// multiplication (516 rows of 384) and backward's buffers of one (batch, key head); and the
/// gradients of the parts where one (batch, key head) is cut up.
std::int64_t kernel_scratch(const ModelConfig& config, std::int64_t batch, std::int64_t seq) {
  const HeadLayout heads = config.head_layout(0);
  const std::int64_t padded = (heads.head_dim + 15) / 16 * 16, threads = thread_count();
  const std::int64_t attention = 4 * seq * padded + 2 * 96 * 64 + 5 * 64 * padded + seq * 64;
  const std::int64_t multiplication = (516 + 32) * 384;
  const std::int64_t tasks = batch * heads.kv_heads;
  const std::int64_t parts = tasks >= 2 * threads || threads == 1 ? 0 : 2 * threads + tasks;
  return kFloat * (threads * std::max(attention, multiplication) + parts * 2 * (seq + 6) * padded);
}

/// The number behind a key in a file of the kernel's, such as "MemAvailable:    123 kB".
std::int64_t read_number(const char* file, const std::string& key) {
  std::ifstream in(file);
  std::string word;
  while (in >> word) {
    if (key.empty() || word == key) {
      std::int64_t value = 0;
      if (key.empty()) return word == "max" ? 0 : std::atoll(word.c_str());
      return in >> value ? value : 0;
    }
  }
  return 0;
}

}  // namespace

ScratchSizes scratch_sizes(const ModelConfig& config, std::int64_t batch, std::int64_t seq,
                           const Device& device) {
  const HeadLayout heads = widest_layout(config);
  const std::int64_t rows = batch * seq;
  // Rows of rounded operands are padded to multiples of eight numbers.
  const auto padded = [](std::int64_t cols) { return (cols + 7) / 8 * 8; };
  const std::int64_t wide = std::max({heads.fused_width(), config.mlp_in_width(), config.d_model});
  Arena measure(device);
  const Matrix<float> logits =
      arrange_workspace<float>(measure, config, batch, seq, Use::kTraining).logits;
  return {.batch = batch,
          .seq = seq,
          .heads = heads.heads,
          .head_dim = heads.head_dim,
          .largest_operand = std::max({rows * padded(wide), logits.rows * logits.cols,
                                       std::max(config.d_model, config.mlp_width()) * padded(wide),
                                       config.padded_vocab() * padded(config.d_model)}),
          .widest = wide};
}

MemoryPlan plan_memory(const ModelConfig& config, std::int64_t batch, std::int64_t seq,
                       const Ops<float>& ops) {
  const std::int64_t parameters = ParameterLayout(config).stored() * kFloat;
  MemoryPlan plan;
  plan.weights = plan.gradients = parameters;
  plan.optimizer = 2 * parameters;
  Arena measure(*ops.device);
  const Workspace<float> work =
      arrange_workspace<float>(measure, config, batch, seq, Use::kTraining);
  plan.activations = static_cast<std::int64_t>(work.block_bytes);
  plan.buffers = static_cast<std::int64_t>(measure.used() - work.block_bytes);
  plan.scratch = ops.scratch_bytes != nullptr
                     ? ops.scratch_bytes(scratch_sizes(config, batch, seq, *ops.device))
                     : kernel_scratch(config, batch, seq);
  return plan;
}

ModelFlops model_flops(const ModelConfig& config, std::int64_t seq) {
  ModelFlops flops;
  const double c = static_cast<double>(config.d_model);
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    const HeadLayout heads = config.head_layout(layer);
    flops.dense += 2 * c * static_cast<double>(heads.fused_width() + heads.query_width());
    flops.dense += 2 * c * static_cast<double>(config.mlp_in_width() + config.mlp_width());
    const double keys = static_cast<double>(seq + 1) / 2;  // a query's, on average
    flops.attention += 4 * keys * static_cast<double>(heads.query_width());
  }
  flops.logits = 2 * c * static_cast<double>(config.vocab_size);
  return flops;
}

std::string head_dim_advice(const ModelConfig& config) {
  const std::int64_t dim = config.head_layout(0).head_dim, lanes = vector_floats();
  const std::int64_t padded = (dim + lanes - 1) / lanes * lanes;
  if (padded == dim) return "";
  // Queries lie in the lanes, so only the gradients of keys and values, two products of the seven,
  // are padded; `headloom bench heads` measures it.
  const double extra = 2.0 / 7.0 * static_cast<double>(padded - dim) / static_cast<double>(dim);
  return fmt::format(
      "head_dim {} is no multiple of the {} floats in a vector: training's attention takes about "
      "{:.0f}% longer than its work; {} would not",
      dim, lanes, 100 * extra, padded);
}

std::int64_t available_memory() {
  const std::int64_t system = 1024 * read_number("/proc/meminfo", "MemAvailable:");
  const std::int64_t limit = read_number("/sys/fs/cgroup/memory.max", "");
  const std::int64_t used = read_number("/sys/fs/cgroup/memory.current", "");
  if (limit <= 0) return system;
  // Pages of files count as used, but the system gives them up for the asking.
  const char* statistics = "/sys/fs/cgroup/memory.stat";
  const std::int64_t files =
      read_number(statistics, "inactive_file") + read_number(statistics, "active_file");
  return std::min(system, std::max<std::int64_t>(0, limit - used + files));
}

void require_memory(const ModelConfig& config, std::int64_t batch, std::int64_t available,
                    const Ops<float>& ops) {
  const auto plan_of = [&](std::int64_t b) { return plan_memory(config, b, config.context, ops); };
  const MemoryPlan plan = plan_of(batch);
  if (available <= 0 || plan.total() <= available) return;
  std::int64_t fitting = batch - 1;
  while (fitting > 0 && plan_of(fitting).total() > available) --fitting;
  const double mega = 1e6;
  const std::string advice = fitting > 0
                                 ? fmt::format("batch {} fits; grad_accum makes up for it", fitting)
                                 : "not even batch 1 fits; take a smaller model or context";
  fail_usage(
      "this run needs {:.0f} MB (weights {:.0f}, gradients {:.0f}, optimizer {:.0f}, activations "
      "{:.0f}, buffers {:.0f}), and {:.0f} MB are available; {}",
      static_cast<double>(plan.total()) / mega, static_cast<double>(plan.weights) / mega,
      static_cast<double>(plan.gradients) / mega, static_cast<double>(plan.optimizer) / mega,
      static_cast<double>(plan.activations) / mega,
      static_cast<double>(plan.buffers + plan.scratch) / mega,
      static_cast<double>(available) / mega, advice);
}

std::int64_t memory_beside_training(const RunConfig& config, const Ops<float>& ops) {
  if (ops.device->is_host) return 0;
  const ModelConfig& model = config.model;
  const auto workspace = [&](std::int64_t batch, std::int64_t seq, Use use) {
    Arena measure(*ops.device);
    arrange_workspace<float>(measure, model, batch, std::min(seq, model.context), use);
    return static_cast<std::int64_t>(measure.used());
  };
  std::int64_t bytes = 0;
  if (config.train.probe_every > 0) {  // LiveProbe: four sequences at a time
    bytes += ParameterLayout(model).stored() * kFloat + workspace(4, 256, Use::kTraining);
  }
  if (config.train.sample_every > 0) {
    const HeadLayout heads = widest_layout(model);
    bytes += workspace(1, 256, Use::kInference) +
             2 * kFloat * model.n_layers * model.context * heads.kv_width();
  }
  return bytes;
}

}  // namespace headloom
