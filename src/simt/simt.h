#pragma once
// What a kernel may use beside plain C++. Under nvcc every function here is one or two PTX
// instructions; under any other compiler it is an emulation in which each lane is a fibre. The
// kernel source is the same for both.
//
//   SIMT_KERNEL(threads, blocks)  before `void name(Params)`, where Params is one plain struct
//   SIMT_FN, SIMT_BOTH            before a device function / one that the host calls too
//   SIMT_UNROLL                   before a loop that must be unrolled on the device
//   SIMT_STATIC_SHARED(T, name, count)
//
//   thread_x() block_x() ... lane() warp()
//   DynamicShared().take<T>(count) -> Shared<T>: indexable, subspan(first, count)
//   barrier()  warp_sync()  shfl(v, lane)  shfl_xor(v, mask)  ballot(flag)
//   cp_async_16(shared, index, global, valid)  cp_async_commit()  cp_async_wait<N>()
//   ldmatrix_x4(regs, shared, index)  ldmatrix_x4_trans(regs, shared, index)
//   mma_m16n8k16(acc, a, b0, b1)
//   fast_exp2(x)  load_16(global)  store_16(global, v)  load_16(shared, index)
//   launch(name, kernel, shape, params)
//
// Warp collectives always take all 32 lanes of a warp.

#include <cstdint>
#include <cstring>

namespace headloom::simt {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

struct LaunchShape {
  Dim3 grid, block;
  std::size_t dynamic_shared = 0;  // bytes
};

struct alignas(16) Vec16 {
  std::uint32_t word[4];
};

}  // namespace headloom::simt

#if defined(__CUDACC__)
#include "simt/simt_device.h"
#else
#include "simt/simt_host.h"
#endif

namespace headloom::simt {

/// bfloat16 storage. Not cuda_bf16.h, which machines without the toolkit lack.
struct bf16 {
  std::uint16_t bits;
};

SIMT_BOTH float to_float(bf16 v) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(static_cast<std::uint32_t>(v.bits) << 16);
#else
  const std::uint32_t bits = static_cast<std::uint32_t>(v.bits) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
#endif
}

/// Two floats rounded to nearest even, `low` in the lower half.
SIMT_BOTH std::uint32_t pack_bf16(float low, float high) {
#if defined(__CUDA_ARCH__)
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  auto round = [](float f) -> std::uint32_t {
    std::uint32_t b;
    std::memcpy(&b, &f, 4);
    if ((b & 0x7fffffffU) > 0x7f800000U) return 0x7fffU;  // the NaN that cvt produces
    return (b + 0x7fffU + ((b >> 16) & 1U)) >> 16;
  };
  return round(low) | round(high) << 16;
#endif
}

SIMT_BOTH bf16 to_bf16(float v) {
  return bf16{static_cast<std::uint16_t>(pack_bf16(v, 0.0F) & 0xffffU)};
}

}  // namespace headloom::simt
