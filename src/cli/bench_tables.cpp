#include "cli/bench_tables.h"

#include <fmt/core.h>

#include <memory>

#include "base/fields.h"
#include "base/progress.h"
#include "base/threads.h"
#include "bench/attention_bench.h"
#include "bench/scaling.h"
#include "cli/device.h"
#include "cli/find_model.h"
#include "ops/backend.h"

namespace headloom {
namespace {

constexpr double kGiga = 1e9;

struct TableArguments {
  std::string model = "andrea-12m";
  std::int64_t batch = 4, context = 1024, heads = 12, kv_heads = 0, head_dim = 64;
  std::int64_t width = 768, tokens = 4096, steps = 3, prompt = 4000;
  bool json = false;
  BackendChoice backend;
};

void print_rows(const std::vector<BenchRow>& rows, const Ops<float>& ops, bool json) {
  if (json) {
    Json out = {{"device", ops.name},
                {"threads", thread_count()},
                {"isa", active_isa()},
                {"rows", Json::array()}};
    for (const BenchRow& row : rows) {
      out["rows"].push_back({{"name", row.name},
                             {"shape", row.shape},
                             {"seconds", row.seconds},
                             {"fastest", row.fastest},
                             {"slowest", row.slowest},
                             {"gflops", row.flops / row.seconds / kGiga},
                             {"peak_gflops", row.peak / kGiga},
                             {"share_of_peak", row.share}});
    }
    fmt::print("{}\n", out.dump());
    return;
  }
  fmt::print("{}, peak {:.1f} GFLOP/s measured in this run\n", device_words(ops),
             rows.empty() ? 0.0 : rows[0].peak / kGiga);
  fmt::print("{:<30}{:<34}{:>10}{:>18}{:>10}{:>9}\n", "", "shape", "ms", "(spread)", "GFLOP/s",
             "of peak");
  for (const BenchRow& row : rows) {
    const std::string spread = fmt::format("({:.2f}-{:.2f})", 1e3 * row.fastest, 1e3 * row.slowest);
    fmt::print("{:<30}{:<34}{:>10.2f}{:>18}{:>10.1f}{:>8.1f}%\n", row.name, row.shape,
               1e3 * row.seconds, spread, row.flops / row.seconds / kGiga, 100 * row.share);
  }
}

HeadLayout layout_of(const TableArguments& given) {
  return {given.heads, given.kv_heads != 0 ? given.kv_heads : given.heads, given.head_dim};
}

/// head_dim 16 to 128 at 12 heads, then one width shared out among more and more heads.
std::vector<HeadLayout> head_sweep(const TableArguments& given) {
  std::vector<HeadLayout> layouts;
  for (const std::int64_t dim : {16, 32, 48, 63, 64, 65, 72, 80, 96, 128}) {
    layouts.push_back({given.heads, given.heads, dim});
  }
  for (const std::int64_t heads : {1, 2, 3, 4, 6, 8, 12, 16, 24, 48}) {
    if (given.width % heads == 0) layouts.push_back({heads, heads, given.width / heads});
  }
  return layouts;
}

Json scaling_json(const std::vector<ScalingRow>& rows, const std::vector<KvHeadsRow>& decode) {
  Json out = {{"isa", active_isa()}, {"training", Json::array()}, {"decoding", Json::array()}};
  for (const ScalingRow& r : rows) {
    out["training"].push_back({{"sweep", r.sweep},
                               {"batch", r.batch},
                               {"context", r.seq},
                               {"threads", r.threads},
                               {"seconds_per_step", r.seconds_per_step},
                               {"tokens_per_second", r.tokens_per_second},
                               {"share_of_peak", r.share},
                               {"dense_seconds", r.dense_seconds},
                               {"attention_seconds", r.attention_seconds},
                               {"activation_bytes", r.activation_bytes}});
  }
  for (const KvHeadsRow& r : decode) {
    out["decoding"].push_back({{"n_kv_heads", r.kv_heads},
                               {"prompt", r.prompt},
                               {"tokens_per_second", r.tokens_per_second},
                               {"cache_bytes_per_token", r.cache_bytes_per_token}});
  }
  return out;
}

void print_scaling(const TableArguments& given) {
  const ModelConfig config = find_model(given.model);
  config.validate();
  const std::vector<ScalingRow> rows = bench_scaling(config, given.tokens, given.steps);
  const std::vector<KvHeadsRow> decode = bench_kv_heads(config, given.prompt, 24);
  if (given.json) {
    fmt::print("{}\n", scaling_json(rows, decode).dump());
    return;
  }
  fmt::print("{}, {}, whole optimizer steps\n", given.model, active_isa());
  fmt::print("{:<9}{:>4}{:>6}{:>9}{:>12}{:>11}{:>9}{:>11}{:>15}{:>13}\n", "varied", "B", "T",
             "threads", "ms/step", "tokens/s", "of peak", "dense ms", "attention ms",
             "activations");
  for (const ScalingRow& r : rows) {
    fmt::print("{:<9}{:>4}{:>6}{:>9}{:>12.1f}{:>11}{:>8.1f}%{:>11.1f}{:>15.1f}{:>10.0f} MB\n",
               r.sweep, r.batch, r.seq, r.threads, 1e3 * r.seconds_per_step,
               format_count(static_cast<long long>(r.tokens_per_second)), 100 * r.share,
               1e3 * r.dense_seconds, 1e3 * r.attention_seconds, r.activation_bytes / 1e6);
  }
  fmt::print("\ndecoding after a prompt of {}\n", given.prompt);
  for (const KvHeadsRow& r : decode) {
    fmt::print("n_kv_heads {:>3}{:>10.1f} tokens/s{:>10.1f} MB of keys and values a token\n",
               r.kv_heads, r.tokens_per_second, r.cache_bytes_per_token / 1e6);
  }
}

void add_attention(CLI::App& bench, const std::shared_ptr<TableArguments>& given) {
  CLI::App* command = bench.add_subcommand(
      "attention", "forward and backward: materialised, heads copied apart, tiled in place");
  command->add_option("--batch", given->batch, "sequences")->check(CLI::PositiveNumber);
  command->add_option("--context", given->context, "positions")->check(CLI::PositiveNumber);
  command->add_option("--n-heads", given->heads, "query heads")->check(CLI::PositiveNumber);
  command->add_option("--n-kv-heads", given->kv_heads, "key/value heads (default: n_heads)")
      ->check(CLI::PositiveNumber);
  command->add_option("--head-dim", given->head_dim, "width of a head")->check(CLI::PositiveNumber);
  command->add_flag("--json", given->json, "one JSON object");
  add_device_options(*command, given->backend);
  command->callback([given] {
    const Ops<float>& ops = open_device(given->backend);
    print_rows(bench_attention({given->batch, given->context, layout_of(*given)}, ops), ops,
               given->json);
  });
}

}  // namespace

void add_bench_tables(CLI::App& bench) {
  auto given = std::make_shared<TableArguments>();
  add_attention(bench, given);
  CLI::App* heads =
      bench.add_subcommand("heads", "what a head_dim costs, and what many heads cost at one width");
  heads->add_option("--batch", given->batch, "sequences")->check(CLI::PositiveNumber);
  heads->add_option("--context", given->context, "positions")->check(CLI::PositiveNumber);
  heads->add_option("--width", given->width, "d_model of the second sweep")
      ->check(CLI::PositiveNumber);
  heads->add_flag("--json", given->json, "one JSON object");
  add_device_options(*heads, given->backend);
  heads->callback([given] {
    const Ops<float>& ops = open_device(given->backend);
    print_rows(bench_heads(given->batch, given->context, head_sweep(*given), ops), ops,
               given->json);
  });
  CLI::App* projection = bench.add_subcommand(
      "projection", "queries, keys and values by 3 NH multiplications, by three, by one");
  projection->add_option("--tokens", given->tokens, "rows of x")->check(CLI::PositiveNumber);
  projection->add_option("--width", given->width, "d_model")->check(CLI::PositiveNumber);
  projection->add_option("--n-heads", given->heads, "heads")->check(CLI::PositiveNumber);
  projection->add_flag("--json", given->json, "one JSON object");
  add_device_options(*projection, given->backend);
  projection->callback([given] {
    if (given->width % given->heads != 0) {
      fail_usage("width {} is not divisible by n_heads {}", given->width, given->heads);
    }
    const Ops<float>& ops = open_device(given->backend);
    print_rows(bench_projection(given->tokens, given->width, given->heads, ops), ops, given->json);
  });
  CLI::App* scaling = bench.add_subcommand(
      "scaling", "whole steps over context, batch and threads; decoding over key/value heads");
  scaling->add_option("model", given->model, "a preset, a config file or a model's folder");
  scaling->add_option("--tokens", given->tokens, "tokens in a step")->check(CLI::PositiveNumber);
  scaling->add_option("--steps", given->steps, "steps to time")->check(CLI::PositiveNumber);
  scaling->add_option("--prompt", given->prompt, "tokens before decoding")
      ->check(CLI::PositiveNumber);
  scaling->add_flag("--json", given->json, "one JSON object");
  scaling->callback([given] { print_scaling(*given); });
}

}  // namespace headloom
