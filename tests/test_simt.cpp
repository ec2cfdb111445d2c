// The emulation of CUDA: each of its checks on a small kernel that breaks one rule, and on its
// neighbour that does not; then the fragment layouts, one element at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "simt/simt.h"

namespace headloom::simt {
namespace {

struct Params {
  const float* in;
  float* out;
  bool break_rule;
};

void read_after_write(Params p) {
  const Shared<float> s = DynamicShared().take<float>(64);
  s[thread_x()] = 1.0F;
  barrier();
  s[thread_x()] = p.in[thread_x()];
  if (!p.break_rule) barrier();
  p.out[thread_x()] = s[63 - thread_x()];
}
void write_after_read(Params p) {
  const Shared<float> s = DynamicShared().take<float>(64);
  s[thread_x()] = p.in[thread_x()];
  barrier();
  const float v = s[63 - thread_x()];
  if (!p.break_rule) barrier();
  s[thread_x()] = v;
}
void warp_exchange(Params p) {
  const Shared<float> s = DynamicShared().take<float>(64);
  s[thread_x()] = 0.0F;
  warp_sync();
  s[thread_x()] = p.in[thread_x()];
  if (!p.break_rule) warp_sync();
  p.out[thread_x()] = s[thread_x() ^ 1];
}
void warp_sync_is_no_barrier(Params p) {
  const Shared<float> s = DynamicShared().take<float>(64);
  s[thread_x()] = 0.0F;
  barrier();
  s[thread_x()] = p.in[thread_x()];
  if (p.break_rule) {
    warp_sync();
  } else {
    barrier();
  }
  p.out[thread_x()] = s[thread_x() ^ 32];
}
void never_written(Params p) {
  const Shared<float> s = DynamicShared().take<float>(64);
  if (!p.break_rule || thread_x() != 5) s[thread_x()] = 1.0F;
  barrier();
  p.out[thread_x()] = s[63 - thread_x()];
}
void past_the_end(Params p) {
  const Shared<float> s = DynamicShared().take<float>(64);
  s[thread_x() + (p.break_rule ? 1 : 0)] = 1.0F;
}
void past_a_static(Params p) {
  SIMT_STATIC_SHARED(float, s, 2);
  if (lane() == 0) s[p.break_rule ? warp() + 1 : warp()] = 1.0F;
}
void missing_wait(Params p) {
  const Shared<float> s = DynamicShared().take<float>(256);
  cp_async_16(s, thread_x() * 4, p.in + thread_x() * 4, true);
  cp_async_commit();
  if (p.break_rule) {
    cp_async_wait<1>();
  } else {
    cp_async_wait<0>();
  }
  p.out[thread_x()] = s[thread_x() * 4];
  cp_async_wait<0>();
}
void wait_is_no_barrier(Params p) {
  const Shared<float> s = DynamicShared().take<float>(256);
  cp_async_16(s, thread_x() * 4, p.in + thread_x() * 4, true);
  cp_async_commit();
  barrier();
  cp_async_wait<0>();
  if (!p.break_rule) barrier();
  p.out[thread_x()] = s[255 - thread_x() * 4];
}
void never_waited(Params p) {
  const Shared<float> s = DynamicShared().take<float>(256);
  cp_async_16(s, thread_x() * 4, p.in + thread_x() * 4, true);
  if (!p.break_rule) cp_async_commit();
  cp_async_wait<0>();
}
void misaligned(Params p) {
  const Shared<float> s = DynamicShared().take<float>(256);
  cp_async_16(s, (thread_x() / 2) * 4 + (p.break_rule ? 1 : thread_x() % 2 * 128), p.in, true);
  cp_async_commit();
  cp_async_wait<0>();
}
void misses_barrier(Params p) {
  if (!p.break_rule || thread_x() != 41) barrier();
}
void misses_one_of_two(Params p) {
  for (int i = 0; i < (p.break_rule && thread_x() == 41 ? 1 : 2); ++i) barrier();
}
void divergent(Params p) {
  if (p.break_rule && thread_x() == 41) {
    barrier();
  } else {
    barrier();
  }
}
void half_a_shuffle(Params p) {
  float v = 1.0F;
  if (!p.break_rule || lane() < 16) v = shfl_xor(v, 1);
  barrier();
  p.out[thread_x()] = v;
}
void mixed_collectives(Params p) {
  if (p.break_rule && lane() < 16) {
    p.out[thread_x()] = static_cast<float>(ballot(true));
  } else {
    p.out[thread_x()] = shfl(1.0F, 0);
  }
}
void too_much_shared(Params p) {
  DynamicShared().take<float>(p.break_rule ? 260 : 256);
}
void throws(Params p) {
  barrier();
  if (p.break_rule && thread_x() == 9) throw Error("thrown in a kernel");
  barrier();
}

/// A kernel whole and broken, and what is said of the broken one, whatever the order of the lanes.
struct Rule {
  const char* name;
  void (*kernel)(Params);
  const char* words;
  const char* or_words = nullptr;
};

class Emulation : public testing::TestWithParam<Rule> {
 protected:
  void TearDown() override { emu_options() = EmuOptions(); }
};

TEST_P(Emulation, SaysWhatIsBrokenAndNothingElse) {
  const Rule& rule = GetParam();
  std::vector<float> in(256, 1.0F), out(256);
  const LaunchShape shape{.grid = {1}, .block = {64}, .dynamic_shared = 1024};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    emu_options().seed = seed;
    EXPECT_NO_THROW(launch(rule.name, rule.kernel, shape, Params{in.data(), out.data(), false}));
    try {
      launch(rule.name, rule.kernel, shape, Params{in.data(), out.data(), true});
      ADD_FAILURE() << "nothing was said";
    } catch (const Error& error) {
      const std::string said = error.what();
      EXPECT_TRUE(said.find(rule.words) != said.npos ||
                  (rule.or_words != nullptr && said.find(rule.or_words) != said.npos))
          << said;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Emulation,
    testing::Values(
        Rule{"read_after_write", read_after_write, "race: "},
        Rule{"write_after_read", write_after_read, "race: "},
        Rule{"warp_exchange", warp_exchange, "race: "},
        Rule{"warp_sync_is_no_barrier", warp_sync_is_no_barrier, "race: "},
        Rule{"never_written", never_written, "thread 58 at test_simt.cpp"},
        Rule{"past_the_end", past_the_end, "index 64 of a shared array of 64"},
        Rule{"past_a_static", past_a_static, "index 2 of a shared array of 2"},
        Rule{"missing_wait", missing_wait, "has not been waited for"},
        // Which of two things is wrong first depends on who comes first.
        Rule{"wait_is_no_barrier", wait_is_no_barrier, "race: ", "has not been waited for"},
        Rule{"never_waited", never_waited, "cp.async was never waited for"},
        Rule{"misaligned", misaligned, "misaligned 16-byte access"},
        Rule{"misses_barrier", misses_barrier, "thread 41 has returned"},
        Rule{"misses_one_of_two", misses_one_of_two, "thread 41 has returned"},
        Rule{"divergent", divergent, "divergent barrier"},
        Rule{"half_a_shuffle", half_a_shuffle, "waits"},
        Rule{"mixed_collectives", mixed_collectives, "while other lanes of the warp wait"},
        Rule{"too_much_shared", too_much_shared, "takes 1040 bytes"},
        Rule{"throws", throws, "thrown in a kernel"}),
    [](const testing::TestParamInfo<Rule>& info) { return std::string(info.param.name); });

void collectives_kernel(Params p) {
  const float x = shfl_xor(static_cast<float>(thread_x()), 3);
  const float y = shfl(static_cast<float>(thread_x()), 7);
  const std::uint32_t odd = ballot(lane() % 2 == 1);
  const bool right = x == static_cast<float>(thread_x() ^ 3) &&
                     y == static_cast<float>(warp() * 32 + 7) && odd == 0xaaaaaaaaU;
  p.out[thread_x()] = right ? 1.0F : 0.0F;
}

TEST(EmulationResults, ShufflesAndBallots) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    emu_options().seed = seed;
    std::vector<float> out(256);
    launch("collectives", collectives_kernel, {.grid = {1}, .block = {256}},
           Params{nullptr, out.data(), false});
    EXPECT_EQ(out, std::vector<float>(256, 1.0F));
  }
  emu_options() = EmuOptions();
}

void nothing(Params) {}

struct BlockWalk {
  int* next;
  int* order;
};

void note_block(BlockWalk p) {
  if (thread_x() == 0) p.order[(*p.next)++] = block_x();
}

TEST(EmulationResults, BlocksComeInEveryOrderAndEachOnce) {
  std::vector<std::vector<int>> seen;
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    emu_options().seed = seed;
    emu_options().parallel = false;
    int next = 0;
    std::vector<int> order(12, -1);
    launch("note_block", note_block, {.grid = {12}, .block = {32}}, BlockWalk{&next, order.data()});
    seen.push_back(order);
    std::sort(order.begin(), order.end());
    for (int i = 0; i < 12; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_NE(seen[2], seen[0]);
  EXPECT_NE(seen[2], seen[3]);
  emu_options() = EmuOptions();
}

TEST(EmulationResults, LaunchLimitsOfTheHardware) {
  const auto refused = [](const LaunchShape& shape) -> std::string {
    try {
      launch("limits", nothing, shape, Params{});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refused({.grid = {1, 65536}, .block = {32}}), "limits: grid.y or grid.z passes 65535");
  EXPECT_EQ(refused({.grid = {0}, .block = {32}}), "limits: empty grid");
  EXPECT_NE(refused({.grid = {1}, .block = {48}}).find("multiple of 32"), std::string::npos);
  EXPECT_NE(refused({.grid = {1}, .block = {32}, .dynamic_shared = 300 << 10}).find("limit"),
            std::string::npos);
}

struct MatrixProbe {
  const bf16* matrix;
  bool trans;
  std::uint32_t* regs;  // [32][4]
};

void matrix_probe(MatrixProbe p) {
  const Shared<bf16> m = DynamicShared().take<bf16>(256);
  for (int i = lane(); i < 256; i += 32) m[i] = p.matrix[i];
  warp_sync();
  std::uint32_t r[4];
  const int at = (lane() & 15) * 16 + (lane() >> 4) * 8;
  if (p.trans) {
    ldmatrix_x4_trans(r, m, at);
  } else {
    ldmatrix_x4(r, m, at);
  }
  for (int j = 0; j < 4; ++j) p.regs[lane() * 4 + j] = r[j];
}

TEST(FragmentLayouts, LdmatrixMovesEachElementWhereThePtxManualSays) {
  for (const bool trans : {false, true}) {
    std::vector<bf16> m(256);
    for (std::size_t i = 0; i < 256; ++i) m[i].bits = static_cast<std::uint16_t>(i);
    std::vector<std::uint32_t> regs(128);
    emu_clear_report();
    launch("matrix_probe", matrix_probe, {.grid = {1}, .block = {32}, .dynamic_shared = 512},
           MatrixProbe{m.data(), trans, regs.data()});
    // Rows of 32 bytes lie in every other group of banks: four of eight meet another.
    EXPECT_EQ(emu_report().ldmatrix_phases, 4U);
    EXPECT_EQ(emu_report().bank_conflicts, 16U);
    for (unsigned l = 0; l < 32; ++l) {
      for (unsigned j = 0; j < 4; ++j) {
        for (unsigned half = 0; half < 2; ++half) {
          unsigned row = l / 4, col = 2 * (l % 4) + half;
          if (trans) std::swap(row, col);
          row += 8 * (j & 1), col += 8 * (j >> 1);
          EXPECT_EQ(regs[l * 4 + j] >> (16 * half) & 0xffffU, row * 16 + col);
        }
      }
    }
  }
}

struct MmaProbe {
  const bf16 *a, *b;  // [16][16], [16][8]
  float* d;           // [16][8]
};

/// Fragments gathered by hand, so that nothing but mma itself is asked.
void mma_probe(MmaProbe p) {
  const auto pair = [](bf16 low, bf16 high) {
    return low.bits | static_cast<std::uint32_t>(high.bits) << 16;
  };
  const int g = lane() / 4, t = 2 * (lane() % 4);
  std::uint32_t a[4], b[2];
  for (int r = 0; r < 4; ++r) {
    const int at = (g + 8 * (r & 1)) * 16 + t + 8 * (r >> 1);
    a[r] = pair(p.a[at], p.a[at + 1]);
  }
  for (int r = 0; r < 2; ++r) {
    b[r] = pair(p.b[(t + 8 * r) * 8 + g], p.b[(t + 8 * r + 1) * 8 + g]);
  }
  float d[4];
  for (int i = 0; i < 4; ++i) d[i] = p.d[(g + 8 * (i >> 1)) * 8 + t + (i & 1)];
  mma_m16n8k16(d, a, b[0], b[1]);
  for (int i = 0; i < 4; ++i) p.d[(g + 8 * (i >> 1)) * 8 + t + (i & 1)] = d[i];
}

TEST(FragmentLayouts, MmaOfTwoOnesHasASingleOne) {
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t k = 0; k < 16; ++k) {
      for (std::size_t j = 0; j < 8; ++j) {
        std::vector<bf16> a(256, bf16{0}), b(128, bf16{0});
        std::vector<float> d(128, 0.5F), wanted(128, 0.5F);
        a[i * 16 + k] = to_bf16(3.0F);
        b[k * 8 + j] = to_bf16(1.0F);
        b[(k + 1) % 16 * 8 + j] = to_bf16(7.0F);  // must not be picked up
        wanted[i * 8 + j] = 3.5F;
        launch("mma_probe", mma_probe, {.grid = {1}, .block = {32}},
               MmaProbe{a.data(), b.data(), d.data()});
        ASSERT_EQ(d, wanted);
      }
    }
  }
}

TEST(FragmentLayouts, RoundingIsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0F + 0x1p-8F).bits, 0x3f80);
  EXPECT_EQ(to_bf16(1.0F + 0x3p-8F).bits, 0x3f82);
  EXPECT_EQ(to_bf16(1.0F + 0x1.1p-8F).bits, 0x3f81);
  EXPECT_EQ(to_bf16(3.4e38F).bits, 0x7f80);
  EXPECT_EQ(pack_bf16(1.0F, -2.0F), 0xc0003f80U);
}

}  // namespace
}  // namespace headloom::simt
