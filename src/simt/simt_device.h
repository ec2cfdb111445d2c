#pragma once
// The device half of simt.h: thin wrappers over CUDA built-ins and PTX. Include simt.h instead.

#include <cuda_runtime.h>

#define SIMT_KERNEL(threads, blocks) __global__ __launch_bounds__(threads, blocks)
#define SIMT_FN __device__ __forceinline__
#define SIMT_BOTH __host__ __device__ __forceinline__
#define SIMT_UNROLL _Pragma("unroll")
#define SIMT_STATIC_SHARED(T, name, count) \
  __shared__ T name##_memory[count];       \
  const ::headloom::simt::Shared<T> name { \
    name##_memory                          \
  }

namespace headloom::simt {

SIMT_FN int thread_x() {
  return static_cast<int>(threadIdx.x);
}
SIMT_FN int block_x() {
  return static_cast<int>(blockIdx.x);
}
SIMT_FN int block_y() {
  return static_cast<int>(blockIdx.y);
}
SIMT_FN int grid_dim_x() {
  return static_cast<int>(gridDim.x);
}
SIMT_FN int block_dim_x() {
  return static_cast<int>(blockDim.x);
}
SIMT_FN int lane() {
  return static_cast<int>(threadIdx.x % 32U);
}
SIMT_FN int warp() {
  return static_cast<int>(threadIdx.x / 32U);
}

/// A piece of shared memory. On the device a bare pointer.
template <class T>
struct Shared {
  T* data;
  SIMT_FN T& operator[](int i) const { return data[i]; }
  SIMT_FN Shared subspan(int first, int /*count*/) const { return {data + first}; }
};

class DynamicShared {
 public:
  SIMT_FN DynamicShared() {
    extern __shared__ __align__(128) unsigned char simt_dynamic_shared[];
    next_ = simt_dynamic_shared;
  }
  /// The next `count` elements; count * sizeof(T) must be a multiple of 16.
  template <class T>
  SIMT_FN Shared<T> take(int count) {
    T* p = reinterpret_cast<T*>(next_);
    next_ += count * sizeof(T);
    return {p};
  }

 private:
  unsigned char* next_;
};

SIMT_FN void barrier() {
  __syncthreads();
}
SIMT_FN void warp_sync() {
  __syncwarp();
}
SIMT_FN float shfl(float v, int source) {
  return __shfl_sync(0xffffffffU, v, source);
}
SIMT_FN float shfl_xor(float v, int mask) {
  return __shfl_xor_sync(0xffffffffU, v, mask);
}
SIMT_FN std::uint32_t ballot(bool flag) {
  return __ballot_sync(0xffffffffU, flag);
}

template <class T>
SIMT_FN std::uint32_t shared_address(Shared<T> s, int i) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(s.data + i));
}

template <class T>
SIMT_FN void cp_async_16(Shared<T> to, int i, const T* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to, i)),
               "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
SIMT_FN void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kLeft>
SIMT_FN void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

template <class T>
SIMT_FN void ldmatrix_x4(std::uint32_t (&r)[4], Shared<T> s, int i) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(s, i))
               : "memory");
}
template <class T>
SIMT_FN void ldmatrix_x4_trans(std::uint32_t (&r)[4], Shared<T> s, int i) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(s, i))
               : "memory");
}
SIMT_FN void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                          std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

SIMT_FN float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <class T>
SIMT_FN Vec16 load_16(const T* p) {
  return *reinterpret_cast<const Vec16*>(p);
}
template <class T>
SIMT_FN void store_16(T* p, Vec16 v) {
  *reinterpret_cast<Vec16*>(p) = v;
}
template <class T>
SIMT_FN Vec16 load_16(Shared<T> s, int i) {
  return *reinterpret_cast<const Vec16*>(s.data + i);
}
/// Stores two packed bf16.
template <class T>
SIMT_FN void store_4(T* p, std::uint32_t v) {
  *reinterpret_cast<std::uint32_t*>(p) = v;
}
template <class T>
SIMT_FN void store_4(Shared<T> s, int i, std::uint32_t v) {
  *reinterpret_cast<std::uint32_t*>(s.data + i) = v;
}

/// The queue that kernels go into, a cudaStream_t; and the check after a launch, which throws with
/// kernel, shape and code (src/cuda/launch.cpp).
void* launch_stream();
void check_launch(int code, const char* name, const LaunchShape& shape);
/// True when a kernel needs more dynamic shared memory than it has been allowed; from then on it
/// is.
bool wants_more_shared(const void* kernel, std::size_t bytes);

template <class Params>
void launch(const char* name, void (*kernel)(Params), const LaunchShape& shape,
            const Params& params) {
  // Beyond 48 KB, static and dynamic together, a kernel must ask. What it has asked for stays, so a
  // recording that is replayed later finds it.
  if (wants_more_shared(reinterpret_cast<const void*>(kernel), shape.dynamic_shared))
    check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shape.dynamic_shared)),
                 name, shape);
  kernel<<<dim3(shape.grid.x, shape.grid.y, shape.grid.z),
           dim3(shape.block.x, shape.block.y, shape.block.z), shape.dynamic_shared,
           static_cast<cudaStream_t>(launch_stream())>>>(params);
  check_launch(cudaGetLastError(), name, shape);
}

}  // namespace headloom::simt
