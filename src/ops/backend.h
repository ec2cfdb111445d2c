#pragma once

#include <string>
#include <vector>

#include "ops/activation.h"
#include "ops/adamw.h"
#include "ops/attend.h"
#include "ops/attend_probe.h"
#include "ops/cross_entropy.h"
#include "ops/embed.h"
#include "ops/gemm.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/rope.h"

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

/// Everything that a model asks of a device, as one table of functions. The model code never knows
/// which table it holds.
template <class T>
struct Ops {
  const char* name = nullptr;
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
};

/// The scalar references: slow, the specification. T is float, double or complex<double>.
template <class T>
const Ops<T>& ref_ops();

/// SIMD, all cores.
const Ops<float>& cpu_ops();

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
