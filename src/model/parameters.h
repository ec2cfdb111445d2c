#pragma once

#include <string>
#include <vector>

#include "attention/attention.h"
#include "model/config.h"
#include "tensor/arena.h"

namespace headloom {

/// What a tensor belongs to, for tables of shares.
enum class ParameterGroup { kTokens, kPositions, kAttention, kMlp, kNorms, kHead };
template <>
struct EnumNames<ParameterGroup> {
  static constexpr std::string_view kNames[] = {"token table", "position table", "attention",
                                                "mlp",         "norms",          "output head"};
};

/// One trainable tensor: its name in files and its place in the flat array of all parameters.
struct ParameterInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  ///< in numbers, from the front of the flat array
  std::int64_t stored = 0;  ///< numbers there, padding rows included; the padding stays zero
  std::int64_t layer = -1;  ///< -1 outside the blocks
  ParameterGroup group = ParameterGroup::kMlp;
  bool decays = false;    ///< weight decay applies (matrices only)
  bool residual = false;  ///< writes to the residual stream; starts smaller with depth

  /// Numbers that count as parameters (padding excluded).
  std::int64_t size() const;
};

/// Weights of the blocks as views; used for parameters and for gradients alike.
template <class T>
struct NormWeights {
  T* gain = nullptr;
  T* bias = nullptr;
};

template <class T>
struct LinearWeights {
  Matrix<T> weight;  ///< [in, out]
  T* bias = nullptr;
};

template <class T>
struct BlockWeights {
  NormWeights<T> norm1;
  AttentionWeights<T> attention;
  NormWeights<T> norm2;
  LinearWeights<T> mlp_in;
  LinearWeights<T> mlp_out;
};

template <class T>
struct ModelWeights {
  Matrix<T> token_table;     ///< [Vp, C]
  Matrix<T> position_table;  ///< [context, C]
  std::vector<BlockWeights<T>> blocks;
  NormWeights<T> final_norm;
  Matrix<T> head;  ///< [Vp, C]; the token table itself when tied
};

/// The tensors of a config in their order in memory and in files.
class ParameterLayout {
 public:
  explicit ParameterLayout(const ModelConfig& config);

  const std::vector<ParameterInfo>& tensors() const { return tensors_; }
  /// Length of the flat array, padding included.
  std::int64_t stored() const { return stored_; }
  /// Number of parameters, as published for a model.
  std::int64_t count() const;
  std::int64_t count(ParameterGroup group) const;
  /// Views into a flat array of `stored()` numbers.
  template <class T>
  ModelWeights<T> views(T* base) const;

 private:
  void add(ParameterInfo info, std::int64_t padding_rows = 0);
  void add_norm(const ModelConfig& config, const std::string& name, std::int64_t layer);
  void add_linear(const ModelConfig& config, const std::string& name, std::int64_t in,
                  std::int64_t out, ParameterInfo info);
  void add_block(const ModelConfig& config, std::int64_t layer);

  ModelConfig config_;
  std::vector<ParameterInfo> tensors_;
  std::int64_t stored_ = 0;
};

/// Numbers of a device as the CPU can read them: themselves where it may, else a copy.
template <class T>
class HostNumbers {
 public:
  HostNumbers(const Device& device, const T* data, std::int64_t count) : data_(data) {
    if (device.is_host) return;
    copy_.resize(static_cast<std::size_t>(count));
    device.download(copy_.data(), data, copy_.size() * sizeof(T));
    data_ = copy_.data();
  }
  HostNumbers(HostNumbers&&) = default;
  const T* data() const { return data_; }

 private:
  std::vector<T> copy_;
  const T* data_;
};

/// A flat array of numbers laid out like the parameters: weights, gradients or optimizer state.
template <class T>
class ParameterArray {
 public:
  explicit ParameterArray(const ParameterLayout& layout, const Device& device = host_device())
      : stored_(layout.stored()),
        arena_(arrange([&](Arena& arena) { data_ = arena.take<T>(stored_); }, device)) {}

  /// In the device's memory.
  T* data() const { return data_; }
  const Device& device() const { return arena_.device(); }
  HostNumbers<T> on_host() const { return {device(), data_, stored_}; }
  /// Calls fill(numbers), all of them in the host's memory and zero where the device is not the
  /// host, and brings them to the device.
  template <class Fill>
  void write(Fill&& fill) const {
    if (device().is_host) return fill(data_);
    std::vector<T> numbers(static_cast<std::size_t>(stored_));
    fill(numbers.data());
    device().upload(data_, numbers.data(), numbers.size() * sizeof(T));
  }

 private:
  std::int64_t stored_;
  T* data_ = nullptr;
  Arena arena_;
};

/// Draws initial weights: matrices normal(0, init_std), those that write to the residual stream
/// divided by sqrt(2 n_layers), norm gains 1, biases 0. Each tensor has its own random stream,
/// named by the seed and the tensor. Source: Radford et al. 2019, section 2.3.
template <class T>
void initialise(const ParameterLayout& layout, const ModelConfig& config, std::uint64_t seed,
                T* parameters);

}  // namespace headloom
