#include "simt/shared_memory.h"

#include <cstring>

namespace headloom::simt::emu {
namespace {

std::size_t up_to(std::size_t unit, std::size_t bytes) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void SharedMemory::begin_block(std::size_t dynamic, std::size_t limit, bool watch_races) {
  limit_ = limit;
  watch_races_ = watch_races;
  dynamic_ = used_ = up_to(16, dynamic);
  if (capacity_ < limit) {
    capacity_ = limit;
    memory_.reset(static_cast<char*>(std::aligned_alloc(128, up_to(128, capacity_) + 128)));
    shadow_.assign(capacity_ / 2 + 64, Cell{});
  }
  std::memset(memory_.get(), 0xff, capacity_);  // NaN as float and as bf16
  statics_.clear();
}

char* SharedMemory::static_piece(const void* key, std::size_t bytes) {
  for (const auto& [known, p] : statics_) {
    if (known == key) return p;
  }
  char* p = memory_.get() + used_;
  used_ += up_to(16, bytes);
  if (used_ > limit_) return nullptr;
  statics_.emplace_back(key, p);
  return p;
}

/// Whether something orders the last write before what `thread` does now.
bool SharedMemory::ordered(int thread, const Clock& now, const Cell& c) {
  const auto warp = static_cast<std::size_t>(thread / 32);
  return c.writer == thread || c.write_time < now.block ||
         (c.writer / 32 == thread / 32 && c.write_warp_time < now.warp[warp]);
}

bool SharedMemory::readers_are_done(int thread, const Clock& now, const Cell& c) {
  if (c.read_time < now.block) return true;
  if (c.readers == Cell::kManyWarps || c.reader / 32 != thread / 32) return false;
  return c.read_warp_time < now.warp[static_cast<std::size_t>(thread / 32)] ||
         (c.readers == Cell::kOne && c.reader == thread);
}

void SharedMemory::note_reader(int thread, const Clock& now, Cell& c) {
  const std::uint32_t warp_time = now.warp[static_cast<std::size_t>(thread / 32)];
  if (c.read_time < now.block) {
    c.readers = Cell::kOne;
  } else if (c.reader / 32 != thread / 32 || c.readers == Cell::kManyWarps) {
    c.readers = Cell::kManyWarps;
  } else if (c.read_warp_time < warp_time) {
    c.readers = Cell::kOne;
  } else if (c.reader != thread) {
    c.readers = Cell::kOneWarp;
  }
  c.read_time = now.block;
  c.read_warp_time = warp_time;
  c.reader = static_cast<std::int16_t>(thread);
}

std::string SharedMemory::read(int thread, const void* p, std::size_t bytes, const Clock& now) {
  if (!watch_races_) return {};
  Cell* c = cell(p);
  for (std::size_t i = 0; i < (bytes + 1) / 2; ++i, ++c) {
    if (c->write_time < now.start) return "reads shared memory never written";
    if (c->in_flight) {
      return "reads shared memory whose cp.async by thread " + std::to_string(c->writer) +
             " has not been waited for";
    }
    if (!ordered(thread, now, *c)) {
      return "race: reads what thread " + std::to_string(c->writer) +
             " wrote, no barrier in between";
    }
    note_reader(thread, now, *c);
  }
  return {};
}

std::string SharedMemory::write(int thread, const void* p, std::size_t bytes, const Clock& now,
                                bool in_flight) {
  if (!watch_races_) return {};
  Cell* c = cell(p);
  for (std::size_t i = 0; i < (bytes + 1) / 2; ++i, ++c) {
    const bool written = c->write_time >= now.start;
    if (written && c->in_flight) {
      return "writes shared memory whose cp.async by thread " + std::to_string(c->writer) +
             " has not been waited for";
    }
    if (written && !ordered(thread, now, *c)) {
      return "race: overwrites what thread " + std::to_string(c->writer) +
             " wrote, no barrier in between";
    }
    if (!readers_are_done(thread, now, *c)) {
      return "race: overwrites what thread " + std::to_string(c->reader) +
             " read, no barrier in between";
    }
    c->write_time = now.block;
    c->write_warp_time = now.warp[static_cast<std::size_t>(thread / 32)];
    c->writer = static_cast<std::int16_t>(thread);
    c->in_flight = in_flight;
  }
  return {};
}

void SharedMemory::land(int thread, const void* p, const Clock& now) {
  Cell* c = cell(p);
  for (int i = 0; i < 8; ++i, ++c) {
    c->in_flight = false;
    c->write_time = now.block;
    c->write_warp_time = now.warp[static_cast<std::size_t>(thread / 32)];
  }
}

}  // namespace headloom::simt::emu
