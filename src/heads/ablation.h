#pragma once

#include <compare>
#include <memory>
#include <span>
#include <string>

#include "heads/statistics.h"
#include "heads/targets.h"
#include "model/gpt.h"

namespace headloom {

/// A head by its place. Written L1H3, zero-based.
struct HeadId {
  std::int64_t layer = 0;
  std::int64_t head = 0;

  std::string name() const;
  auto operator<=>(const HeadId&) const = default;
};

/// Every head of a model, layer by layer.
std::vector<HeadId> all_heads(const ModelConfig& config);

/// Reads a name like L1H3. Errors: kUsage, saying which heads there are.
HeadId parse_head(const std::string& name, const ModelConfig& config);

/// What an ablated head puts out in place of its output z.
enum class Ablation {
  kZero,      ///< nothing
  kMean,      ///< the mean of z over all rows: the head says what it always says
  kUniform,   ///< the mean of the values it sees: it looks nowhere in particular
  kResample,  ///< z of another sequence at the same position: it looks at the wrong text
};
template <>
struct EnumNames<Ablation> {
  static constexpr std::string_view kNames[] = {"zero", "mean", "uniform", "resample"};
};

/// What a model makes of every row but the last of each sequence, whose next token is not known.
struct RowResults {
  std::vector<float> loss;   ///< [B*T] nats; 0 in last rows
  std::vector<float> logit;  ///< [B*T] of the right token, less the mean over the vocabulary
};

/// Runs sequences through a model with some heads changed. Changes nothing in the model itself.
class Ablator {
 public:
  /// Two sequences are the least: one has no other to resample from.
  Ablator(const ModelConfig& config, float* parameters, const Sequences& sequences,
          const Ops<float>& ops = cpu_ops());
  ~Ablator();
  Ablator(const Ablator&) = delete;
  Ablator& operator=(const Ablator&) = delete;

  const RowResults& clean() const;
  RowResults without(std::span<const HeadId> heads, Ablation kind);
  /// Factors on the heads' outputs, in the order of all_heads.
  RowResults with_gates(std::span<const float> gates);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Mean loss over all rows that have a next token, nats.
double mean_loss(const RowResults& results, const Sequences& sequences);

/// The null model: the same architecture, its weights drawn anew.
ParameterArray<float> fresh_parameters(const ModelConfig& config, std::uint64_t seed);

/// Rows to judge: all that have a next token; a pattern's; or all but a pattern's.
enum class Rows { kAll, kJudged, kOther };

/// Mean over rows of what changed from `before` to `after`, with interval. `pattern` may be null
/// for Rows::kAll.
Estimate mean_change(std::span<const float> before, std::span<const float> after,
                     const Sequences& sequences, const Targets* pattern, Rows rows,
                     std::uint64_t seed);

}  // namespace headloom
