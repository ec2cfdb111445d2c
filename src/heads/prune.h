#pragma once

#include <filesystem>

#include "base/fields.h"
#include "heads/importance.h"
#include "train/loaded_model.h"

namespace headloom {

/// What decides which heads go: the least of it first.
enum class PruneBy { kAblation, kImportance, kGradient, kRandom };
template <>
struct EnumNames<PruneBy> {
  static constexpr std::string_view kNames[] = {"ablation", "importance", "gradient", "random"};
};

/// Of every head how much it is worth by some measure, in the order of all_heads: loss that its
/// zero ablation costs, Michel's importance, gradient share, or a random number.
std::vector<double> head_worths(PruneBy by, const ModelConfig& config, float* parameters,
                                const Sequences& sequences, std::uint64_t seed);

/// The heads that stay when `keep` of all (0 to 1) do: those worth most, and of every layer at
/// least one, because a layer cannot be without heads. In the order of all_heads.
std::vector<HeadId> heads_to_keep(const ModelConfig& config, const std::vector<double>& worths,
                                  double keep);

/// Gates that are 1 for these heads and 0 for all others, in the order of all_heads.
std::vector<float> gates_of(const ModelConfig& config, const std::vector<HeadId>& kept);

/// The model with these heads alone, physically smaller, that computes what the gated one does.
/// Errors: kUsage where heads share their keys, because a key head cannot go with one of them.
ModelConfig pruned_config(const ModelConfig& config, const std::vector<HeadId>& kept);
void copy_kept(const ModelConfig& config, const float* parameters, const ModelConfig& pruned,
               const std::vector<HeadId>& kept, float* out);

/// Tokens a second of whole forward passes over up to 16 of these sequences; median of several.
double forward_speed(const ModelConfig& config, float* parameters, const Sequences& sequences);

/// What stands in the way of a pruned run, before any work is done. Errors: kUsage when `run` is no
/// run, `out` holds one already, or heads share their keys.
void check_prunable(const std::filesystem::path& run, const std::filesystem::path& out,
                    const ModelConfig& config);

/// Makes a run in `out` that begins with a checkpoint of the pruned model (step 0, moments zero),
/// so that training goes on from it, for `steps` or, when 0, for as long as `run` was trained. The
/// corpus is that of `run`. Errors: as check_prunable.
void write_pruned_run(const std::filesystem::path& run, const std::filesystem::path& out,
                      const ModelConfig& pruned, const float* parameters, std::int64_t steps,
                      const std::string& command);

}  // namespace headloom
