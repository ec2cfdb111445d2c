#pragma once

#include <string>
#include <vector>

#include "ops/activation.h"
#include "ops/adamw.h"
#include "ops/attend.h"
#include "ops/attend_probe.h"
#include "ops/copy.h"
#include "ops/cross_entropy.h"
#include "ops/embed.h"
#include "ops/gemm.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/rope.h"
#include "tensor/device.h"

namespace headloom {

/// One entry of a backend: checks the arguments, then runs the kernel.
template <class Args>
struct Op {
  void (*kernel)(const Args&) = nullptr;

  /// Errors: kFailed, naming op, tensor, shape wanted and shape given.
  void operator()(const Args& args) const {
    check(args);
    kernel(args);
  }
};

/// How numbers are multiplied on a card. fp32: as they are. tf32, bf16: operands rounded to 10 and
/// 7 bits of mantissa, sums in fp32. Weights, gradients and optimizer are fp32 always.
enum class Precision { kFp32, kTf32, kBf16 };
template <>
struct EnumNames<Precision> {
  static constexpr std::string_view kNames[] = {"fp32", "tf32", "bf16"};
};

/// What decides how much ops take beside their arguments.
struct ScratchSizes {
  std::int64_t batch = 0, seq = 0, heads = 0, head_dim = 0;
  std::int64_t largest_operand = 0;  ///< numbers in the largest factor of a multiplication
  std::int64_t widest = 0;           ///< columns of the widest matrix that is summed by columns
};

/// Everything that a model asks of a device, as one table of functions. The model code never knows
/// which table it holds. Tensors lie in the device's memory; what an op calls the host's (ids of
/// key sets, gates, sums) lies in the CPU's.
template <class T>
struct Ops {
  const char* name = nullptr;
  const Device* device = &host_device();
  Precision precision = Precision::kFp32;
  /// What a head_dim runs as, in a sentence; null: nothing to say.
  std::string (*head_dim_note)(std::int64_t head_dim) = nullptr;
  /// Bytes of the device that ops may take beside their arguments, for B * T rows of a model; null:
  /// the device has its own way of telling.
  std::int64_t (*scratch_bytes)(const ScratchSizes& sizes) = nullptr;
  /// Takes these bytes now, before a training begins; null: nothing to take.
  void (*reserve)(const ScratchSizes& sizes) = nullptr;
  /// Multiplies square matrices of operands rounded beforehand, `times` times: what there is to be
  /// had of a card. Null: the CPU has a meter of its own.
  void (*multiply_again)(std::int64_t size, int times) = nullptr;
  Op<Gemm<T>> gemm;
  Op<Rope<T>> rope;
  Op<AttendForward<T>> attend_forward;
  Op<AttendBackward<T>> attend_backward;
  Op<AttendProbe<T>> attend_probe;
  Op<NormForward<T>> norm_forward;
  Op<NormBackward<T>> norm_backward;
  Op<ActivationForward<T>> activation_forward;
  Op<ActivationBackward<T>> activation_backward;
  Op<EmbedForward<T>> embed_forward;
  Op<EmbedBackward<T>> embed_backward;
  Op<CrossEntropy<T>> cross_entropy;
  Op<AdamW<T>> adamw;
  Op<ColumnSum<T>> column_sum;
  Op<SumSquares<T>> sum_squares;
  Op<Zero<T>> zero;
  Op<CopyHeads<T>> copy_heads;
  /// The readable first rung of attention, without gates, where a backend has one: for benchmarks.
  Op<AttendForward<T>> attend_forward_simple;
  Op<AttendBackward<T>> attend_backward_simple;
};

/// The scalar references: slow, the specification. T is float, double or complex<double>.
template <class T>
const Ops<T>& ref_ops();

/// SIMD, all cores.
const Ops<float>& cpu_ops();

/// A device as a user names it.
struct BackendChoice {
  std::string device = "cpu";  ///< cpu, cuda, auto
  std::string precision = "fp32";
};

/// The precision of that name. Errors: kUsage.
Precision precision_named(const std::string& name);

/// Makes a backend known under a name beside "cpu". `open` returns its table, or throws kUsage with
/// the reason why it cannot be used here.
void add_backend(const std::string& name, const Ops<float>& (*open)(Precision));

/// The table that was asked for. `note`, when given, gets a sentence when "auto" falls back to the
/// CPU, with the reason. Errors: kUsage when there is no such device, build or precision.
const Ops<float>& open_backend(const BackendChoice& choice, std::string* note = nullptr);

/// The same, with the sentence on stderr.
const Ops<float>& open_device(const BackendChoice& choice);

/// The instruction sets that this machine can run, best first: "avx512", "avx2", "portable", ...
std::vector<std::string> available_isas();

/// The instruction set in use. The environment variable HEADLOOM_ISA forces one.
std::string active_isa();

/// Floats in a vector of the instruction set in use.
std::int64_t vector_floats();

/// Forces an instruction set for the whole process; call it before any op runs.
/// Errors: kUsage when this machine or build does not have it.
void select_isa(const std::string& name);

}  // namespace headloom
