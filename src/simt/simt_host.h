#pragma once
// The host half of simt.h: the interface of the emulation. Include simt.h instead.
//
// What is checked while a kernel runs, each with kernel, block, thread and source line:
//   - index outside a Shared<T>; misaligned 16-byte access; more shared memory than was asked for
//   - shared memory read before it was written in this block (it is NaN besides)
//   - races in shared memory: two lanes, at least one writes, no barrier (or, within a warp, no
//     warp_sync) between them. Does not depend on the lane order.
//   - shared memory touched while a cp.async into it is in flight; copies never waited for
//   - a barrier or warp collective that not all lanes reach, or that they reach at different lines
//   - launch limits of the hardware
//   - in global memory that was named to the emulation (global_memory.h): accesses outside of every
//     tensor, and races between the blocks of a launch

#include <cmath>
#include <concepts>
#include <functional>
#include <stdexcept>
#include <utility>

#define SIMT_KERNEL(threads, blocks)
#define SIMT_FN inline
#define SIMT_BOTH inline
#define SIMT_UNROLL
// A static in a function template is one object per instantiation, as __shared__ is.
#define SIMT_STATIC_SHARED(T, name, count) \
  static char name##_key;                  \
  const ::headloom::simt::Shared<T> name = \
      ::headloom::simt::emu::static_shared<T>(&name##_key, count)

namespace headloom::simt {

/// A place in the source, taken where a default argument is filled in. std::source_location would
/// do, but clang before 16 cannot read it from libstdc++.
struct Where {
  const char* file = "";
  unsigned line = 0;
  static constexpr Where current(const char* file = __builtin_FILE(),
                                 unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

/// What the emulation throws from launch().
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Shared memory that a block may ask for, in bytes, by architecture.
inline constexpr std::size_t kSharedOfSm80 = 163 << 10, kSharedOfSm89 = 99 << 10,
                             kSharedOfSm90 = 227 << 10;

/// Settings of the emulation; a test sets them before it launches.
struct EmuOptions {
  std::uint64_t seed = 0;  // lane and block order; 0 ascending, 1 descending, else random
  std::size_t max_shared = kSharedOfSm89;  // bytes; the least of them
  bool parallel = true;                    // blocks over OpenMP threads
  // 0: exact. Else a seed that shuffles the order in which mma adds up, and moves ex2.approx within
  // the error that its manual gives: what cards may do, and results must not depend on.
  std::uint64_t numerics = 0;
  bool races = true;  // watch shared memory; without it only poison and order tell
};
EmuOptions& emu_options();

/// Counted over all launches since the last emu_clear_report.
struct EmuReport {
  std::uint64_t switches = 0, mmas = 0, ldmatrix_phases = 0, bank_conflicts = 0;
};
const EmuReport& emu_report();
void emu_clear_report();

namespace emu {

struct Place {
  Dim3 thread, block, block_dim, grid_dim;
  int lane = 0, warp = 0, linear = 0;
};
extern constinit thread_local const Place* here;

/// An index that remembers where it was used.
struct Index {
  long value;
  Where where;
  template <std::integral I>
  Index(I i, Where w = Where::current()) : value(static_cast<long>(i)), where(w) {}
};

void check_index(long first, long count, long size, Where where);
void on_read(const void* p, std::size_t bytes, Where where);
void on_write(const void* p, std::size_t bytes, Where where);
void check_aligned(const void* p, std::size_t bytes, Where where);
void* find_static_shared(const void* key, std::size_t bytes, Where where);
void* take_dynamic_shared(std::size_t offset, std::size_t bytes, Where where);
float exchange(float v, int source, Where where);
float perturbed_exp2(float x);
void cp_async(void* to, const void* from, bool valid, Where where);
void cp_async_wait(int left, Where where);
void ldmatrix(std::uint32_t* regs, const void* row, bool trans, Where where);
void run(const char* name, const LaunchShape& shape, const std::function<void()>& lane_body);
void submit(std::function<void()> work);

/// Reads and writes of one element, told apart. Only usable on the spot: `auto x = s[i]` would read
/// later than it says, so a named Ref does not convert.
template <class T>
class Ref {
 public:
  Ref(T* p, Where where) : p_(p), where_(where) {}
  Ref(const Ref&) = delete;
  operator T() && {
    on_read(p_, sizeof(T), where_);
    return *p_;
  }
  void operator=(T v) && {
    on_write(p_, sizeof(T), where_);
    *p_ = v;
  }
  void operator=(Ref&& other) && { std::move(*this) = static_cast<T>(std::move(other)); }
  void operator+=(T v) && {
    on_read(p_, sizeof(T), where_);
    std::move(*this) = *p_ + v;
  }

 private:
  T* p_;
  Where where_;
};

}  // namespace emu

inline int thread_x() {
  return static_cast<int>(emu::here->thread.x);
}
inline int block_x() {
  return static_cast<int>(emu::here->block.x);
}
inline int block_y() {
  return static_cast<int>(emu::here->block.y);
}
inline int grid_dim_x() {
  return static_cast<int>(emu::here->grid_dim.x);
}
inline int block_dim_x() {
  return static_cast<int>(emu::here->block_dim.x);
}
inline int lane() {
  return emu::here->lane;
}
inline int warp() {
  return emu::here->warp;
}

/// A piece of shared memory that knows its length.
template <class T>
struct Shared {
  T* data;
  long size;
  emu::Ref<T> operator[](emu::Index i) const { return {at(i.value, 1, i.where), i.where}; }
  Shared subspan(long first, long count, Where where = Where::current()) const {
    return {at(first, count, where), count};
  }
  T* at(long first, long count, Where where) const {
    emu::check_index(first, count, size, where);
    return data + first;
  }
};

namespace emu {
template <class T>
Shared<T> static_shared(const void* key, long count, Where where = Where::current()) {
  return {static_cast<T*>(find_static_shared(key, count * sizeof(T), where)), count};
}
template <class T>
T* at_aligned(Shared<T> s, long i, std::size_t bytes, Where where) {
  T* p = s.at(i, static_cast<long>(bytes / sizeof(T)), where);
  check_aligned(p, bytes, where);
  return p;
}
}  // namespace emu

class DynamicShared {
 public:
  template <class T>
  Shared<T> take(long count, Where where = Where::current()) {
    const std::size_t bytes = count * sizeof(T);
    void* p = emu::take_dynamic_shared(next_, bytes, where);
    next_ += bytes;
    return {static_cast<T*>(p), count};
  }

 private:
  std::size_t next_ = 0;
};

void barrier(Where where = Where::current());
void warp_sync(Where where = Where::current());
std::uint32_t ballot(bool flag, Where where = Where::current());
void cp_async_commit(Where where = Where::current());
void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                  Where where = Where::current());

inline float shfl(float v, int source, Where where = Where::current()) {
  return emu::exchange(v, source & 31, where);
}
inline float shfl_xor(float v, int mask, Where where = Where::current()) {
  return emu::exchange(v, (lane() ^ mask) & 31, where);
}
template <class T>
void cp_async_16(Shared<T> to, long i, const T* from, bool valid, Where where = Where::current()) {
  emu::check_aligned(from, 16, where);
  emu::cp_async(emu::at_aligned(to, i, 16, where), from, valid, where);
}
template <int kLeft>
void cp_async_wait(Where where = Where::current()) {
  emu::cp_async_wait(kLeft, where);
}
template <class T>
void ldmatrix_x4(std::uint32_t (&r)[4], Shared<T> s, long i, Where where = Where::current()) {
  emu::ldmatrix(r, emu::at_aligned(s, i, 16, where), false, where);
}
template <class T>
void ldmatrix_x4_trans(std::uint32_t (&r)[4], Shared<T> s, long i, Where where = Where::current()) {
  emu::ldmatrix(r, emu::at_aligned(s, i, 16, where), true, where);
}

inline float fast_exp2(float x) {
  const float y = emu::perturbed_exp2(x);
  return y < 1.17549435e-38F ? 0.0F : y;  // .ftz
}

template <class T>
Vec16 load_16(const T* p, Where where = Where::current()) {
  emu::check_aligned(p, 16, where);
  Vec16 v;
  std::memcpy(&v, p, 16);
  return v;
}
template <class T>
void store_16(T* p, Vec16 v, Where where = Where::current()) {
  emu::check_aligned(p, 16, where);
  std::memcpy(p, &v, 16);
}
template <class T>
Vec16 load_16(Shared<T> s, long i, Where where = Where::current()) {
  const T* p = emu::at_aligned(s, i, 16, where);
  emu::on_read(p, 16, where);
  Vec16 v;
  std::memcpy(&v, p, 16);
  return v;
}
template <class T>
void store_4(T* p, std::uint32_t v, Where where = Where::current()) {
  emu::check_aligned(p, 4, where);
  std::memcpy(p, &v, 4);
}
template <class T>
void store_4(Shared<T> s, long i, std::uint32_t v, Where where = Where::current()) {
  T* p = emu::at_aligned(s, i, 4, where);
  emu::on_write(p, 4, where);
  std::memcpy(p, &v, 4);
}

template <class Params>
void launch(const char* name, void (*kernel)(Params), const LaunchShape& shape,
            const Params& params) {
  // A copy of the parameters, as a card takes one: the work may be recorded and done later.
  emu::submit([name, kernel, shape, params] { emu::run(name, shape, [&] { kernel(params); }); });
}

}  // namespace headloom::simt
