#include "simt/global_memory.h"

#include <atomic>
#include <memory>
#include <string>

#include "simt/emulated_block.h"

namespace headloom::simt::emu {
namespace {

/// Who touched four bytes last: the launch in the upper half, the block plus one in the lower;
/// kMany for readers of several blocks. Zero launches have not been.
using Touch = std::uint64_t;
constexpr std::uint32_t kMany = 0xffffffffU;

/// What is known of four bytes. The order "note yourself, then look at the other" on both sides
/// makes sure that of two blocks that race at least one sees it.
struct Cell {
  std::atomic<Touch> writer{0}, reader{0};
  std::atomic<bool> in_tensor{false};
};

struct Region {
  const char* begin = nullptr;
  std::size_t bytes = 0;
  std::unique_ptr<Cell[]> cells;
  bool holds(const char* p) const { return p >= begin && p < begin + bytes; }
};

std::vector<Region>& regions() {
  static auto* all = new std::vector<Region>;  // outlives arenas that are static
  return *all;
}
std::atomic<std::uint32_t> launch_number{0};
const char *device_begin = nullptr, *device_end = nullptr;

/// The block that runs on this thread, as it touches memory.
thread_local Touch me = 0;
/// Where this thread's last access fell; accesses come in runs.
thread_local Region* last_region = nullptr;
thread_local std::uint32_t last_region_launch = 0;

Region* region_of(const char* p) {
  for (Region& r : regions()) {
    if (r.holds(p)) return &r;
  }
  return nullptr;
}

Region* region_of_access(const char* p) {
  const std::uint32_t now = static_cast<std::uint32_t>(me >> 32);
  if (last_region_launch == now && last_region->holds(p)) return last_region;
  Region* region = region_of(p);
  if (region != nullptr) {
    last_region = region;
    last_region_launch = now;
  }
  return region;
}

bool is_other(Touch touch, Touch mine) {
  return touch != mine && touch >> 32 == mine >> 32;
}

/// Compilers take the calls at loads and stores for ones that do not throw, so this does not.
[[noreturn]] void report(const char* p, const char* what) {
  block->note(block->current().last, here->linear,
              std::string(what) + " (global memory, somewhere after this line; address " +
                  std::to_string(reinterpret_cast<std::uintptr_t>(p)) + ")");
  block->stop();
}

void note_reader(Cell& c, Touch mine) {
  Touch before = c.reader.load();
  while (before != mine) {
    const bool shared = before >> 32 == mine >> 32;  // another block of this launch, or many
    const Touch after = shared ? (mine >> 32 << 32 | kMany) : mine;
    if (before == after || c.reader.compare_exchange_weak(before, after)) return;
  }
}

}  // namespace

void watch_memory(const void* data, std::size_t bytes) {
  Region region{static_cast<const char*>(data), bytes, std::make_unique<Cell[]>((bytes + 3) / 4)};
  regions().push_back(std::move(region));
}

void forget_memory(const void* data) {
  std::erase_if(regions(), [&](const Region& r) { return r.begin == data; });
}

bool is_watched(const void* data) {
  return region_of(static_cast<const char*>(data)) != nullptr;
}

void set_device_addresses(const void* begin, std::size_t bytes) {
  device_begin = static_cast<const char*>(begin);
  device_end = device_begin + bytes;
}

void note_tensor(const void* data, std::size_t bytes) {
  const auto* p = static_cast<const char*>(data);
  Region* region = region_of(p);
  if (region == nullptr) return;
  const std::size_t first = static_cast<std::size_t>(p - region->begin) / 4;
  for (std::size_t i = 0; i < (bytes + 3) / 4; ++i) region->cells[first + i].in_tensor = true;
}

void begin_launch() {
  ++launch_number;
}

void begin_block(Dim3 b, Dim3 g) {
  const std::uint64_t index = b.x + std::uint64_t{g.x} * (b.y + std::uint64_t{g.y} * b.z);
  me = std::uint64_t{launch_number.load()} << 32 |
       (static_cast<std::uint32_t>(index % (kMany - 2)) + 1);
}

void on_global(const void* address, std::size_t bytes, bool write) {
  if (block == nullptr || here == nullptr || regions().empty()) return;
  const auto* p = static_cast<const char*>(address);
  Region* region = region_of_access(p);
  if (region == nullptr) {
    if (p >= device_begin && p < device_end) report(p, "touches memory that was released");
    return;  // stacks, shared memory, memory that no one has named
  }
  const Touch mine = me;
  const std::size_t first = static_cast<std::size_t>(p - region->begin) / 4;
  const std::size_t last = static_cast<std::size_t>(p + bytes - 1 - region->begin) / 4;
  for (std::size_t i = first; i <= last; ++i) {
    Cell& c = region->cells[i];
    if (p + bytes > region->begin + region->bytes || !c.in_tensor.load(std::memory_order_relaxed)) {
      report(p, write ? "writes outside of every tensor" : "reads outside of every tensor");
    }
    if (write) {
      const Touch before = c.writer.exchange(mine);
      if (is_other(before, mine)) report(p, "race: writes what another block wrote");
      if (is_other(c.reader.load(), mine)) report(p, "race: writes what another block reads");
    } else {
      note_reader(c, mine);
      if (is_other(c.writer.load(), mine)) report(p, "race: reads what another block wrote");
    }
  }
}

}  // namespace headloom::simt::emu

// The calls at every load and store. Only kernels are compiled with them, and no sanitizer's
// library is linked, so the names are free.
#if defined(HEADLOOM_WATCH_GLOBAL)

namespace headloom::simt::emu {
bool watches_global_memory() {
  return true;
}
}  // namespace headloom::simt::emu

#define HEADLOOM_TSAN_CALLS(size)                   \
  void __tsan_read##size(void* p) {                 \
    headloom::simt::emu::on_global(p, size, false); \
  }                                                 \
  void __tsan_write##size(void* p) {                \
    headloom::simt::emu::on_global(p, size, true);  \
  }                                                 \
  void __tsan_unaligned_read##size(void* p) {       \
    headloom::simt::emu::on_global(p, size, false); \
  }                                                 \
  void __tsan_unaligned_write##size(void* p) {      \
    headloom::simt::emu::on_global(p, size, true);  \
  }

extern "C" {
HEADLOOM_TSAN_CALLS(1)
HEADLOOM_TSAN_CALLS(2)
HEADLOOM_TSAN_CALLS(4)
HEADLOOM_TSAN_CALLS(8)
HEADLOOM_TSAN_CALLS(16)
void __tsan_read_range(void* p, unsigned long size) {
  headloom::simt::emu::on_global(p, size, false);
}
void __tsan_write_range(void* p, unsigned long size) {
  headloom::simt::emu::on_global(p, size, true);
}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
void* __tsan_memcpy(void* to, const void* from, unsigned long size) {
  return __builtin_memcpy(to, from, size);
}
void* __tsan_memset(void* to, int value, unsigned long size) {
  return __builtin_memset(to, value, size);
}
}

#undef HEADLOOM_TSAN_CALLS

#else

namespace headloom::simt::emu {
bool watches_global_memory() {
  return false;
}
}  // namespace headloom::simt::emu

#endif
