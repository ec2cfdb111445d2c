#include "simt/emulated_block.h"

#include <sys/mman.h>

#include <cstring>

namespace headloom::simt::emu {

constinit thread_local const Place* here = nullptr;
constinit thread_local Block* block = nullptr;

namespace {

constexpr std::size_t kStackBytes = 64 << 10;

struct Stop {};  // thrown by Block::fail

bool same(const Where& a, const Where& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

std::string text(const Where& w) {
  if (w.line == 0) return "its start";
  std::string place = w.file;
  place.erase(0, place.find_last_of('/') + 1);
  return place + ":" + std::to_string(w.line);
}

}  // namespace

Block::Block() {
  slab_ = static_cast<char*>(mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (slab_ == MAP_FAILED) throw Error("emulation: no memory for lane stacks");
}

Block::~Block() {
  munmap(slab_, kMaxThreads * kStackBytes);
}

void Block::note(const Where& where, int thread, const std::string& what) {
  const Place& p = lane_at(thread).place;
  error_ = std::string(name_) + ": block (" + std::to_string(p.block.x) + "," +
           std::to_string(p.block.y) + "," + std::to_string(p.block.z) + ") thread " +
           std::to_string(thread) + " at " + text(where) + ": " + what;
}

void Block::fail(const Where& where, int thread, const std::string& what) {
  note(where, thread, what);
  throw Stop{};
}

void Block::stop() {
  exited_ = threads_;
  Fibre::resume(current_->fibre, origin_, true);
  std::abort();
}

/// Names the lane that is missing: one that has returned, else one that waits elsewhere. Where
/// lanes wait in two places, the place with fewer lanes is taken to be the wrong one.
void Block::fail_deadlock() {
  int waiting = -1, culprit = -1, here_count = 0, all = 0;
  for (int i = 0; i < threads_; ++i) {
    if (lane_at(i).exited) {
      culprit = culprit < 0 ? i : culprit;
    } else if (is_waiting(lane_at(i))) {
      waiting = waiting < 0 ? i : waiting;
      here_count += same(lane_at(i).last, lane_at(waiting).last) ? 1 : 0;
      ++all;
    }
  }
  // A lane that returned is to blame only where its own warp waits in a collective, or all in a
  // barrier.
  if (waiting >= 0 && warp_of(lane_at(waiting)).arrived != 0) {
    const int first = waiting / 32 * 32;
    culprit = -1;
    for (int i = first; i < first + 32 && culprit < 0; ++i) culprit = lane_at(i).exited ? i : -1;
  }
  if (culprit < 0) {
    for (int i = 0; i < threads_ && culprit < 0; ++i) {
      if (is_waiting(lane_at(i)) && !same(lane_at(i).last, lane_at(waiting).last)) culprit = i;
    }
    if (culprit >= 0 && 2 * here_count < all) std::swap(waiting, culprit);
  }
  if (culprit < 0) culprit = waiting;  // all wait on one line, in different operations
  fail(lane_at(waiting).last, waiting,
       "waits for ever: thread " + std::to_string(culprit) +
           (lane_at(culprit).exited ? " has returned, last seen at " : " waits at ") +
           text(lane_at(culprit).last));
}

void Block::lane_entry() {
  Fibre::arrived(block->origin_);
  block->lane_body();
}

/// A lane that fails unwinds its own stack to here and ends the block. The others are never
/// resumed; their frames hold nothing that needs a destructor, kernels being what they are.
void Block::lane_body() {
  Lane& lane = *current_;
  try {
    (*body_)();
    check_copies(lane);
    lane.exited = true;
    ++exited_;
    if (at_barrier_ > 0 || warp_of(lane).arrived != 0) fail_deadlock();
    if (exited_ < threads_) {
      Lane* to = next();
      if (to == nullptr) fail_deadlock();
      ++report.switches;
      current_ = to;
      here = &to->place;
    }
  } catch (const Stop&) {
    exited_ = threads_;
  } catch (...) {
    exception_ = std::current_exception();
    exited_ = threads_;
  }
  // Left only here, outside any handler: the runtime lists caught exceptions per thread.
  Fibre::resume(lane.fibre, exited_ == threads_ ? origin_ : current_->fibre, true);
  std::abort();
}

void Block::check_copies(Lane& lane) {
  if (lane.copies.empty()) return;
  fail(lane.copies.front().where, lane.place.linear, "cp.async was never waited for");
}

/// Makes all lanes of a warp runnable, in a new order.
void Block::reorder(Warp& w) {
  w.ready = kAllLanes;
  if (seed_ == 0) {
    w.stride = 1, w.offset = 0;
  } else if (seed_ == 1) {
    w.stride = w.offset = 31;
  } else {
    const std::uint32_t r = random_();
    w.stride = (r & 31U) | 1U, w.offset = (r >> 8) & 31U;
  }
}

Lane* Block::next() {
  const auto at = [&](int i) -> Warp& { return warps_[static_cast<std::size_t>(i)]; };
  Warp* w = &at(warp_);
  const bool leave = seed_ > 1 && w->ready == kAllLanes && (random_() & 7U) == 0;
  if (w->ready == 0 || leave) {
    const int step = seed_ == 1 ? warp_count_ - 1 : 1;
    if (seed_ > 1) warp_ = static_cast<int>(random_() % static_cast<unsigned>(warp_count_));
    for (int tried = 0; tried <= warp_count_ && at(warp_).ready == 0; ++tried) {
      warp_ = (warp_ + step) % warp_count_;
    }
    w = &at(warp_);
    if (w->ready == 0) return nullptr;
  }
  const int i = std::countr_zero(w->ready);
  w->ready &= w->ready - 1;
  return &lane_at(warp_ * 32 + w->order(i));
}

void Block::switch_away() {
  Lane* from = current_;
  Lane* to = next();
  if (to == nullptr) fail_deadlock();
  if (to == from) return;
  ++report.switches;
  current_ = to;
  here = &to->place;
  Fibre::resume(from->fibre, to->fibre);
}

void Block::barrier(Where where) {
  Lane& lane = *current_;
  lane.last = where;
  warp_of(lane).at_barrier |= 1U << lane.place.lane;
  if (exited_ > 0) fail_deadlock();
  if (at_barrier_ == 0) {
    barrier_where_ = where;
    barrier_first_ = lane.place.linear;
  } else if (!same(barrier_where_, where)) {
    fail(where, lane.place.linear,
         "divergent barrier: thread " + std::to_string(barrier_first_) + " waits at " +
             text(barrier_where_));
  }
  if (++at_barrier_ == threads_) {
    at_barrier_ = 0;
    ++clock_.block;
    for (std::size_t i = 0; i < static_cast<std::size_t>(warp_count_); ++i) {
      ++clock_.warp[i];
      warps_[i].at_barrier = 0;
      reorder(warps_[i]);
    }
  }
  switch_away();
}

void Block::collective(const char* operation, void* operand, Where where,
                       const std::function<void(void**, int)>& compute) {
  Lane& lane = *current_;
  Warp& w = warp_of(lane);
  lane.last = where;
  if (w.arrived == 0) {
    w.operation = operation;
    w.where = where;
  } else if (w.operation != operation || !same(w.where, where)) {
    fail(where, lane.place.linear,
         std::string(operation) + " while other lanes of the warp wait in " + w.operation + " at " +
             text(w.where));
  }
  w.operands[static_cast<std::size_t>(lane.place.lane)] = operand;
  w.arrived |= 1U << lane.place.lane;
  if (w.arrived == kAllLanes) {
    compute(w.operands.data(), lane.place.warp * 32);
    w.arrived = 0;
    reorder(w);
  } else if (exited_ > 0) {
    for (int i = 0; i < 32; ++i) {
      if (lane_at(lane.place.warp * 32 + i).exited) fail_deadlock();
    }
  }
  switch_away();
}

void Block::read(int thread, const void* p, std::size_t bytes, Where where) {
  const std::string wrong = memory_.read(thread, p, bytes, clock_);
  if (!wrong.empty()) fail(where, thread, wrong);
}

void Block::write(int thread, const void* p, std::size_t bytes, Where where, bool in_flight) {
  const std::string wrong = memory_.write(thread, p, bytes, clock_, in_flight);
  if (!wrong.empty()) fail(where, thread, wrong);
}

void Block::land(const Copy& copy) {
  memory_.land(current_->place.linear, copy.to, clock_);
  if (copy.valid) {
    std::memcpy(copy.to, copy.from, 16);
  } else {
    std::memset(copy.to, 0, 16);
  }
}

void* Block::static_shared(const void* key, std::size_t bytes, Where where) {
  char* p = memory_.static_piece(key, bytes);
  if (p == nullptr) {
    fail(where, current_->place.linear,
         "static and dynamic shared memory pass the limit of " + std::to_string(memory_.limit()) +
             " bytes");
  }
  return p;
}

void* Block::dynamic_shared(std::size_t offset, std::size_t bytes, Where where) {
  if (bytes % 16 != 0) {
    fail(where, current_->place.linear, "shared pieces must be a multiple of 16 bytes");
  }
  if (offset + bytes > memory_.dynamic()) {
    fail(where, current_->place.linear,
         "takes " + std::to_string(offset + bytes) +
             " bytes of dynamic shared memory, launched with " + std::to_string(memory_.dynamic()));
  }
  return memory_.dynamic_piece(offset);
}

void Block::start_lanes(const LaunchShape& shape, Dim3 index) {
  const auto threads = static_cast<unsigned>(threads_);
  // The lowest page of each stack faults on overflow. Only of lanes in use: a process may have so
  // many pieces of memory and no more.
  for (std::size_t i = lanes_.size(); i < threads; ++i) {
    if (mprotect(slab_ + i * kStackBytes, 4096, PROT_NONE) != 0) {
      throw Error("emulation: a lane's stack cannot be guarded");
    }
  }
  if (lanes_.size() < threads) lanes_.resize(threads);
  for (unsigned u = 0; u < threads; ++u) {
    const int i = static_cast<int>(u);
    Lane& lane = lane_at(i);
    lane.place = {.thread = {u % shape.block.x, u / shape.block.x % shape.block.y,
                             u / (shape.block.x * shape.block.y)},
                  .block = index,
                  .block_dim = shape.block,
                  .grid_dim = shape.grid,
                  .lane = i % 32,
                  .warp = i / 32,
                  .linear = i};
    lane.exited = false;
    lane.last = Where{};
    lane.copies.clear();
    lane.committed = 0;
    lane.fibre.start(slab_ + u * kStackBytes, kStackBytes, (u * 320U) % 8192U, lane_entry);
  }
}

void Block::run(const char* name, const LaunchShape& shape, Dim3 index, std::uint64_t seed,
                const std::function<void()>& body) {
  name_ = name;
  body_ = &body;
  seed_ = seed;
  random_.state = seed * 0x2545f4914f6cdd1dU + index.x + (std::uint64_t{index.y} << 32) + index.z;
  numerics.state = emu_options().numerics * 0x9e3779b97f4a7c15U + random_.state;
  threads_ = static_cast<int>(shape.block.x * shape.block.y * shape.block.z);
  warp_count_ = threads_ / 32;
  at_barrier_ = exited_ = 0;
  error_.clear();
  exception_ = nullptr;
  memory_.begin_block(shape.dynamic_shared, emu_options().max_shared, emu_options().races);
  clock_.start = ++clock_.block;
  for (std::size_t i = 0; i < warps_.size(); ++i) {
    warps_[i].arrived = warps_[i].at_barrier = 0;
    ++clock_.warp[i];
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(warp_count_); ++i) reorder(warps_[i]);
  start_lanes(shape, index);
  begin_block(index, shape.grid);
  block = this;
  warp_ = 0;
  current_ = next();
  here = &current_->place;
  Fibre::resume(origin_, current_->fibre);
  here = nullptr;
  block = nullptr;
  if (exception_) std::rethrow_exception(exception_);
  if (!error_.empty()) throw Error(error_);
}

}  // namespace headloom::simt::emu
