#pragma once

#include "ops/backend.h"
#include "simt/simt.h"

/// What the table of CUDA ops needs beside its kernels, and what its files share.
namespace headloom::cuda {

/// One multiplication, rows contiguous: c = op(a) op(b) + bias, or c += op(a) op(b), sums in fp32.
/// Operands are float, or bf16 with `bf16`. Units: ld* elements from row to row.
struct Multiply {
  std::int64_t m = 0, n = 0, k = 0;
  const void *a = nullptr, *b = nullptr;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool transpose_a = false, transpose_b = false;
  bool bf16 = false;
  bool tf32 = false;  ///< float operands may be rounded to 10 bits of mantissa
  float* c = nullptr;
  const float* bias = nullptr;
  bool accumulate = false;
};

/// Memory and queue of a card, and who multiplies: cuBLASLt there, the reference in the emulation.
struct Platform {
  const char* name = "";
  const Device* device = nullptr;
  void (*multiply)(const Multiply&) = nullptr;
};

/// The CUDA kernels as a table, on a platform and at a precision. One of them at a time: a second
/// call changes what the tables of earlier ones do.
const Ops<float>& ops_on(const Platform& platform, Precision precision);

const Platform& platform();
Precision precision();

/// Places where ops keep what lies between two kernels.
enum class Slot {
  kLeft,
  kRight,
  kQuery,
  kKey,
  kValue,
  kOut,
  kDout,
  kDquery,
  kDkey,
  kDvalue,
  kLse,
  kDelta,
  kPlain,
  kGate,
  kDgate,
  kSets,
  kProbe,
  kParts,
  kWorkspace,
  kCount
};

/// What a multiplication may use beside its operands, bytes: what NVIDIA advises for Hopper.
inline constexpr std::int64_t kBlasWorkspace = std::int64_t{32} << 20;

/// Memory of the device, valid until the next call for the same slot. It grows to the largest
/// request; smaller memory is kept, because recorded work may point to it.
void* scratch_bytes(Slot slot, std::size_t bytes);
template <class T>
T* scratch(Slot slot, std::int64_t count) {
  return static_cast<T*>(scratch_bytes(slot, static_cast<std::size_t>(count) * sizeof(T)));
}

/// Entries of the table that have files of their own.
void gemm(const Gemm<float>& g);
void attend_forward(const headloom::AttendForward<float>& a);
void attend_backward(const headloom::AttendBackward<float>& a);
void attend_probe(const headloom::AttendProbe<float>& a);
/// By the kernels of the seed: a block to a head. No gates.
void attend_forward_simply(const headloom::AttendForward<float>& a);
void attend_backward_simply(const headloom::AttendBackward<float>& a);

}  // namespace headloom::cuda
