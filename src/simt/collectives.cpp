// What the lanes of a block do together, and what they touch: each computed for all lanes at once,
// with the fragment layouts of the PTX manual.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "simt/emulated_block.h"

namespace headloom::simt {
namespace emu {

void check_index(long first, long count, long size, Where where) {
  if (first >= 0 && count >= 0 && first + count <= size) return;
  std::string what = "index ";
  what += std::to_string(first);
  if (count > 1) what.append("+").append(std::to_string(count));
  what.append(" of a shared array of ").append(std::to_string(size));
  block->fail(where, here->linear, what);
}

void check_aligned(const void* p, std::size_t bytes, Where where) {
  if (reinterpret_cast<std::uintptr_t>(p) % bytes == 0) return;
  block->fail(where, here->linear, "misaligned " + std::to_string(bytes) + "-byte access");
}

void on_read(const void* p, std::size_t bytes, Where where) {
  block->read(here->linear, p, bytes, where);
}

void on_write(const void* p, std::size_t bytes, Where where) {
  block->write(here->linear, p, bytes, where);
}

void* find_static_shared(const void* key, std::size_t bytes, Where where) {
  return block->static_shared(key, bytes, where);
}

void* take_dynamic_shared(std::size_t offset, std::size_t bytes, Where where) {
  return block->dynamic_shared(offset, bytes, where);
}

void cp_async(void* to, const void* from, bool valid, Where where) {
  if (valid) on_global(from, 16, false);
  block->write(here->linear, to, 16, where, true);
  std::memset(to, 0xff, 16);
  Lane& lane = block->current();
  lane.copies.push_back({to, from, valid, lane.committed, where});
}

void cp_async_wait(int left, Where) {
  Lane& lane = block->current();
  std::erase_if(lane.copies, [&](const Copy& c) {
    const bool done = c.group < lane.committed - left;
    if (done) block->land(c);
    return done;
  });
}

namespace {

/// What cards are free to choose, drawn anew for each block, so that a seed gives the same again.
Random& numeric_random() {
  return block->numerics;
}

struct Exchange {
  float value, result;
  int source;
};
struct Ballot {
  bool flag;
  std::uint32_t result;
};
struct MatrixLoad {
  const char* row;
  std::uint32_t* regs;
  bool trans;
};
struct Mma {
  float* c;
  const std::uint32_t* a;
  std::uint32_t b0, b1;
};

float low(std::uint32_t pair) {
  return to_float(bf16{static_cast<std::uint16_t>(pair)});
}
float high(std::uint32_t pair) {
  return to_float(bf16{static_cast<std::uint16_t>(pair >> 16)});
}

/// Eight rows are read at once: they must lie in eight groups of banks.
void count_conflicts(void** operands, EmuReport& report) {
  for (int j = 0; j < 4; ++j) {
    std::uint32_t groups = 0;
    for (int i = 0; i < 8; ++i) {
      const auto* p = static_cast<const MatrixLoad*>(operands[8 * j + i]);
      groups |= 1U << (reinterpret_cast<std::uintptr_t>(p->row) / 16 % 8);
    }
    ++report.ldmatrix_phases;
    report.bank_conflicts += static_cast<unsigned>(8 - std::popcount(groups));
  }
}

/// PTX ISA, "ldmatrix": lane 8j+i gives the address of row i of matrix j. Lane l receives in
/// register j elements (l/4, 2(l%4)) and (l/4, 2(l%4)+1) of matrix j or, with .trans, of its
/// transpose.
void load_matrices(void** operands, int first_thread, Where where, EmuReport& report) {
  std::uint16_t m[32][8];
  for (int i = 0; i < 32; ++i) {
    const auto* p = static_cast<const MatrixLoad*>(operands[i]);
    block->read(first_thread + i, p->row, 16, where);
    std::memcpy(m[i], p->row, 16);
  }
  count_conflicts(operands, report);
  for (int l = 0; l < 32; ++l) {
    const auto* p = static_cast<const MatrixLoad*>(operands[l]);
    const int g = l / 4, t = 2 * (l % 4);
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t first = p->trans ? m[8 * j + t][g] : m[8 * j + g][t];
      const std::uint32_t second = p->trans ? m[8 * j + t + 1][g] : m[8 * j + g][t + 1];
      p->regs[j] = first | second << 16;
    }
  }
}

/// The order in which an mma adds up its 16 products: the manual leaves it open.
std::array<int, 16> addition_order() {
  std::array<int, 16> order;
  std::iota(order.begin(), order.end(), 0);
  if (emu_options().numerics == 0) return order;
  Random& random = numeric_random();
  for (int k = 15; k > 0; --k) {
    std::swap(order[static_cast<std::size_t>(k)],
              order[random() % static_cast<std::uint32_t>(k + 1)]);
  }
  return order;
}

/// PTX ISA, "mma.m16n8k16", with g = lane/4, t = 2(lane%4):
///   A: a0 (g, t) (g, t+1)   a1 (g+8, t..)   a2 (g, t+8..)   a3 (g+8, t+8..)
///   B: b0 (t, g) (t+1, g)   b1 (t+8, g) (t+9, g)
///   C: c0 (g, t)  c1 (g, t+1)  c2 (g+8, t)  c3 (g+8, t+1)
void multiply(void** operands) {
  float a[16][16], b[16][8], c[16][8];
  for (int l = 0; l < 32; ++l) {
    const auto* p = static_cast<const Mma*>(operands[l]);
    const int g = l / 4, t = 2 * (l % 4);
    for (int r = 0; r < 4; ++r) {
      const int row = g + 8 * (r & 1), col = t + 8 * (r >> 1);
      a[row][col] = low(p->a[r]);
      a[row][col + 1] = high(p->a[r]);
    }
    b[t][g] = low(p->b0), b[t + 1][g] = high(p->b0);
    b[t + 8][g] = low(p->b1), b[t + 9][g] = high(p->b1);
  }
  const std::array<int, 16> order = addition_order();
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      c[i][j] = 0;
      for (const int k : order) c[i][j] += a[i][k] * b[k][j];
    }
  }
  for (int l = 0; l < 32; ++l) {
    const auto* p = static_cast<const Mma*>(operands[l]);
    const int g = l / 4, t = 2 * (l % 4);
    p->c[0] += c[g][t], p->c[1] += c[g][t + 1];
    p->c[2] += c[g + 8][t], p->c[3] += c[g + 8][t + 1];
  }
}

}  // namespace

float exchange(float v, int source, Where where) {
  Exchange mine{v, 0.0F, source};
  block->collective("shfl", &mine, where, [](void** o, int) {
    for (int i = 0; i < 32; ++i) {
      auto* e = static_cast<Exchange*>(o[i]);
      e->result = static_cast<Exchange*>(o[e->source])->value;
    }
  });
  return mine.result;
}

float perturbed_exp2(float x) {
  const float y = std::exp2(x);
  if (emu_options().numerics == 0) return y;
  // PTX ISA, "ex2": a relative error of up to 2^-22.
  const double share = static_cast<double>(numeric_random()()) / 0x1p31 - 1.0;
  return static_cast<float>(static_cast<double>(y) * (1.0 + share * 0x1p-22));
}

void ldmatrix(std::uint32_t* regs, const void* row, bool trans, Where where) {
  MatrixLoad mine{static_cast<const char*>(row), regs, trans};
  block->collective("ldmatrix", &mine, where, [where](void** o, int first) {
    load_matrices(o, first, where, block->report);
  });
}

}  // namespace emu

void barrier(Where where) {
  emu::block->barrier(where);
}

void warp_sync(Where where) {
  emu::block->collective("warp_sync", nullptr, where,
                         [](void**, int) { emu::block->advance_warp_time(); });
}

std::uint32_t ballot(bool flag, Where where) {
  emu::Ballot mine{flag, 0};
  emu::block->collective("ballot", &mine, where, [](void** o, int) {
    std::uint32_t mask = 0;
    for (int i = 0; i < 32; ++i) {
      mask |= static_cast<std::uint32_t>(static_cast<emu::Ballot*>(o[i])->flag) << i;
    }
    for (int i = 0; i < 32; ++i) static_cast<emu::Ballot*>(o[i])->result = mask;
  });
  return mine.result;
}

void cp_async_commit(Where) {
  ++emu::block->current().committed;
}

void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                  Where where) {
  emu::Mma mine{c, a, b0, b1};
  emu::block->collective("mma", &mine, where, [](void** o, int) {
    emu::multiply(o);
    ++emu::block->report.mmas;
  });
}

}  // namespace headloom::simt
