// Launches under the emulation: the hardware's limits, blocks over threads, what a launch reports.
#include <algorithm>
#include <memory>
#include <numeric>

#include "simt/emulated_block.h"
#include "simt/global_memory.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace headloom::simt {

EmuOptions& emu_options() {
  static EmuOptions options;
  return options;
}

namespace {
EmuReport last_report;
}

const EmuReport& emu_report() {
  return last_report;
}

void emu_clear_report() {
  last_report = {};
}

namespace emu {
namespace {

void check_launch(const char* name, const LaunchShape& s) {
  const auto bad = [&](const std::string& what) { throw Error(std::string(name) + ": " + what); };
  if (s.grid.x == 0 || s.grid.y == 0 || s.grid.z == 0) bad("empty grid");
  if (s.grid.x > 0x7fffffffU) bad("grid.x passes 2^31-1");
  if (s.grid.y > 65535 || s.grid.z > 65535) bad("grid.y or grid.z passes 65535");
  const std::uint64_t threads = std::uint64_t{s.block.x} * s.block.y * s.block.z;
  if (threads == 0 || threads > kMaxThreads || threads % 32 != 0) {
    bad("a block of " + std::to_string(threads) + " threads; need a multiple of 32 up to 1024");
  }
  if (s.dynamic_shared > emu_options().max_shared) {
    bad(std::to_string(s.dynamic_shared) + " bytes of dynamic shared memory, limit " +
        std::to_string(emu_options().max_shared));
  }
}

Dim3 index_of(std::uint64_t n, const Dim3& grid) {
  return {static_cast<unsigned>(n % grid.x), static_cast<unsigned>(n / grid.x % grid.y),
          static_cast<unsigned>(n / grid.x / grid.y)};
}

/// The order of the blocks: ascending, descending, or a walk by a stride that meets them all.
struct BlockOrder {
  long count, stride = 1, offset = 0;

  BlockOrder(long n, std::uint64_t seed) : count(n) {
    if (seed == 1) stride = count - 1, offset = count - 1;
    if (seed < 2) return;
    Random random{seed};
    offset = static_cast<long>(random() % static_cast<unsigned long>(count));
    do {
      stride = 1 + static_cast<long>(random() % static_cast<unsigned long>(count));
    } while (std::gcd(stride, count) != 1);
  }
  long at(long n) const {
    return static_cast<long>((static_cast<__int128>(n) * stride + offset) % count);
  }
};

void add(EmuReport& total, const EmuReport& part) {
  total.switches += part.switches;
  total.mmas += part.mmas;
  total.ldmatrix_phases += part.ldmatrix_phases;
  total.bank_conflicts += part.bank_conflicts;
}

}  // namespace

void run(const char* name, const LaunchShape& shape, const std::function<void()>& body) {
  check_launch(name, shape);
  begin_launch();
  const std::uint64_t seed = emu_options().seed;
  const long count = static_cast<long>(shape.grid.x) * shape.grid.y * shape.grid.z;
  const BlockOrder order(count, seed);
  EmuReport total;
  std::exception_ptr first;
  long first_index = count;
#if defined(_OPENMP)
  const bool parallel = emu_options().parallel && count > 1 && !omp_in_parallel();
#endif
#pragma omp parallel if (parallel)
  {
    thread_local std::unique_ptr<Block> mine;  // keeps its stacks from launch to launch
    if (mine) mine->report = {};
#pragma omp for schedule(dynamic)
    for (long n = 0; n < count; ++n) {
      const long at = order.at(n);
      try {  // an exception must not leave the parallel region
        if (!mine) mine = std::make_unique<Block>();
        mine->run(name, shape, index_of(static_cast<std::uint64_t>(at), shape.grid), seed, body);
      } catch (...) {
#pragma omp critical(simt_error)
        if (at < first_index) {
          first_index = at;
          first = std::current_exception();
        }
      }
    }
#pragma omp critical(simt_report)
    if (mine) add(total, mine->report);
  }
  add(last_report, total);
  if (first) std::rethrow_exception(first);
}

}  // namespace emu
}  // namespace headloom::simt
