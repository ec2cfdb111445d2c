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
  std::size_t multiply_workspace = 0;  ///< bytes that multiply takes from Slot::kWorkspace
};

/// The CUDA kernels as a table, on a platform and at a precision. A process has one platform, and
/// tables of all precisions share its scratch: one thread at a time may use them.
const Ops<float>& ops_on(const Platform& platform, Precision precision);

const Platform& platform();

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

/// Memory of the device, valid until the next call for the same slot. It grows to the largest
/// request; smaller memory is kept, because recorded work may point to it.
void* scratch_bytes(Slot slot, std::size_t bytes);
template <class T>
T* scratch(Slot slot, std::int64_t count) {
  return static_cast<T*>(scratch_bytes(slot, static_cast<std::size_t>(count) * sizeof(T)));
}

/// Bytes that the slots come to in training steps of such a size, and the same asked for at once: a
/// slot that grew step by step would keep every smaller piece.
std::int64_t planned_scratch(const ScratchSizes& sizes, Precision precision);
void reserve_scratch(const ScratchSizes& sizes, Precision precision);

/// Entries of the table that have files of their own.
void gemm(const Gemm<float>& g, Precision precision);
/// Multiplies square matrices of operands that are rounded already, `times` times.
void multiply_again(std::int64_t size, int times, Precision precision);
void attend_forward(const headloom::AttendForward<float>& a, Precision precision);
void attend_backward(const headloom::AttendBackward<float>& a, Precision precision);
void attend_probe(const headloom::AttendProbe<float>& a);
/// By the kernels of the seed: a block to a head. No gates.
void attend_forward_simply(const headloom::AttendForward<float>& a);
void attend_backward_simply(const headloom::AttendBackward<float>& a);

}  // namespace headloom::cuda
