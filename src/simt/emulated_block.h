#pragma once

#include <bit>
#include <exception>
#include <functional>

#include "simt/fibre.h"
#include "simt/shared_memory.h"

namespace headloom::simt::emu {

inline constexpr std::uint32_t kAllLanes = 0xffffffffU;

/// splitmix64: the orders of lanes and blocks.
struct Random {
  std::uint64_t state;
  std::uint32_t operator()() {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return static_cast<std::uint32_t>(z >> 32);
  }
};

/// A cp.async under way.
struct Copy {
  void* to;
  const void* from;
  bool valid;
  int group;
  Where where;
};

struct Lane {
  Fibre fibre;
  Place place;
  bool exited = false;
  Where last;  ///< the collective it waits in, or met last
  std::vector<Copy> copies;
  int committed = 0;
};

struct Warp {
  std::uint32_t ready = 0;       ///< bit i: lane order(i) can run
  std::uint32_t arrived = 0;     ///< lanes in a warp collective
  std::uint32_t at_barrier = 0;  ///< lanes in a block barrier
  const char* operation = nullptr;
  Where where;
  std::array<void*, 32> operands{};
  std::uint32_t stride = 1, offset = 0;
  int order(int i) const {
    return static_cast<int>((stride * static_cast<std::uint32_t>(i) + offset) & 31U);
  }
};

/// A thread block as a set of fibres, one per lane, on one thread. A lane runs until it meets a
/// collective (barrier, shuffle, mma ...), leaves a pointer to its operands and hands over to the
/// next lane that can run. The lane that completes a collective computes it for all of them and
/// makes them runnable again, in a fresh order. When no lane can run and some still wait, that is
/// the error to report.
class Block {
 public:
  Block();
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Runs one block to its end. Errors: Error, with kernel, block, thread and source line.
  void run(const char* name, const LaunchShape& shape, Dim3 index, std::uint64_t seed,
           const std::function<void()>& body);

  Lane& current() { return *current_; }
  void barrier(Where where);
  /// The lane that arrives last calls compute(operands of lanes 0 ... 31, their first thread).
  void collective(const char* operation, void* operand, Where where,
                  const std::function<void(void**, int)>& compute);
  /// What a warp_sync does once all lanes are there.
  void advance_warp_time() { ++clock_.warp[static_cast<std::size_t>(current_->place.warp)]; }

  void read(int thread, const void* p, std::size_t bytes, Where where);
  void write(int thread, const void* p, std::size_t bytes, Where where, bool in_flight = false);
  void land(const Copy& copy);
  void* static_shared(const void* key, std::size_t bytes, Where where);
  void* dynamic_shared(std::size_t offset, std::size_t bytes, Where where);
  [[noreturn]] void fail(const Where& where, int thread, const std::string& what);
  /// The same in two steps for callers that the compiler takes for calls that never throw: the
  /// lane's stack is left as it is.
  void note(const Where& where, int thread, const std::string& what);
  [[noreturn]] void stop();

  EmuReport report;
  Random numerics{0};  ///< see EmuOptions::numerics

 private:
  static void lane_entry();
  void lane_body();
  void start_lanes(const LaunchShape& shape, Dim3 index);
  void reorder(Warp& w);
  Lane& lane_at(int thread) { return lanes_[static_cast<std::size_t>(thread)]; }
  Warp& warp_of(const Lane& lane) { return warps_[static_cast<std::size_t>(lane.place.warp)]; }
  bool is_waiting(const Lane& lane) {
    const Warp& w = warp_of(lane);
    return ((w.arrived | w.at_barrier) >> lane.place.lane & 1U) != 0;
  }
  void switch_away();
  Lane* next();
  [[noreturn]] void fail_deadlock();
  void check_copies(Lane& lane);

  char* slab_;  ///< the lanes' stacks
  std::vector<Lane> lanes_;
  std::array<Warp, kMaxWarps> warps_;
  int threads_ = 0, warp_count_ = 0, warp_ = 0;
  int at_barrier_ = 0, exited_ = 0;
  Where barrier_where_;
  int barrier_first_ = 0;
  Clock clock_;
  SharedMemory memory_;
  Lane* current_ = nullptr;
  Fibre origin_;
  Random random_{0};
  std::uint64_t seed_ = 0;
  const char* name_ = "";
  const std::function<void()>* body_ = nullptr;
  std::string error_;
  std::exception_ptr exception_;  ///< anything else that a kernel throws
};

/// The block that runs on this thread.
extern constinit thread_local Block* block;

/// A block begins on this thread.
void begin_block(Dim3 index, Dim3 grid);
/// A kernel's access to memory that is not shared: see global_memory.h.
void on_global(const void* address, std::size_t bytes, bool write);

}  // namespace headloom::simt::emu
