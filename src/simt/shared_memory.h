#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simt/simt.h"

namespace headloom::simt::emu {

inline constexpr int kMaxThreads = 1024;
inline constexpr int kMaxWarps = kMaxThreads / 32;

/// Time as races see it: it goes on at block barriers and, within a warp, at warp_syncs. Two
/// accesses of different lanes, one of them a write, must have one of these between them.
struct Clock {
  std::uint32_t block = 1;
  std::uint32_t start = 1;  ///< of the block that runs; times go on from block to block
  std::array<std::uint32_t, kMaxWarps> warp{};
};

/// The shared memory of one block, and a shadow that knows of every two bytes who wrote them last
/// and when, and who has read them since. What is wrong with an access is returned in words, empty
/// when nothing is; that does not depend on the order in which lanes happen to run.
class SharedMemory {
 public:
  /// Empties it: everything is NaN and never written. Units: bytes.
  void begin_block(std::size_t dynamic, std::size_t limit, bool watch_races);

  /// The piece that a kernel's static array is; null when the limit is passed.
  char* static_piece(const void* key, std::size_t bytes);
  /// `bytes` from `offset` on of the dynamic part.
  char* dynamic_piece(std::size_t offset) { return memory_.get() + offset; }
  std::size_t dynamic() const { return dynamic_; }
  std::size_t limit() const { return limit_; }

  std::string read(int thread, const void* p, std::size_t bytes, const Clock& clock);
  std::string write(int thread, const void* p, std::size_t bytes, const Clock& clock,
                    bool in_flight = false);
  /// 16 bytes of a cp.async arrive: they count as written now, by the lane that waited.
  void land(int thread, const void* p, const Clock& clock);

 private:
  /// Last accesses to two bytes.
  struct Cell {
    enum Readers : std::uint8_t { kOne, kOneWarp, kManyWarps };
    std::uint32_t write_time = 0, write_warp_time = 0;
    std::uint32_t read_time = 0, read_warp_time = 0;
    std::int16_t writer = 0, reader = 0;
    Readers readers = kOne;
    bool in_flight = false;
  };
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };

  Cell* cell(const void* p) {
    return &shadow_[static_cast<std::size_t>(static_cast<const char*>(p) - memory_.get()) / 2];
  }
  static bool ordered(int thread, const Clock& now, const Cell& c);
  static bool readers_are_done(int thread, const Clock& now, const Cell& c);
  static void note_reader(int thread, const Clock& now, Cell& c);

  std::unique_ptr<char, Free> memory_;  ///< the dynamic part, then statics in order of first use
  std::size_t capacity_ = 0, used_ = 0, dynamic_ = 0, limit_ = 0;
  std::vector<std::pair<const void*, char*>> statics_;
  std::vector<Cell> shadow_;
  bool watch_races_ = true;
};

}  // namespace headloom::simt::emu
