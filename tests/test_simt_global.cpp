// The emulation's watch on global memory: each of its checks on a kernel that breaks one rule, and
// on its neighbour that does not, in many orders of the blocks.
#include <gtest/gtest.h>

#include <vector>

#include "simt/global_memory.h"
#include "support/global_kernels.h"

namespace headloom::simt {
namespace {

struct Rule {
  const char* name;
  void (*kernel)(Params);
  const char* message;
};

class GlobalMemory : public testing::TestWithParam<Rule> {
 protected:
  void SetUp() override {
    if (!emu::watches_global_memory()) GTEST_SKIP() << "kernels are not watched in this build";
  }
  void TearDown() override { emu_options() = EmuOptions(); }
};

/// What running the kernel says; empty when nothing.
std::string run(const Rule& rule, bool break_rule) {
  // With room on both sides that is watched but no tensor.
  alignas(16) static float in[kCount + 32], out[kCount + 32];
  emu::watch_memory(in, sizeof in);
  emu::watch_memory(out, sizeof out);
  emu::note_tensor(in + 16, kCount * sizeof(float));
  emu::note_tensor(out + 16, kCount * sizeof(float));
  std::string said;
  try {
    launch(rule.name, rule.kernel,
           LaunchShape{.grid = {kBlocks}, .block = {kThreads}, .dynamic_shared = 4 * 4 * kThreads},
           Params{in + 16, out + 16, break_rule});
  } catch (const Error& error) {
    said = error.what();
  }
  emu::forget_memory(in);
  emu::forget_memory(out);
  return said;
}

TEST_P(GlobalMemory, SaysWhatIsBrokenAndNothingElse) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (const bool parallel : {true, false}) {
      emu_options().seed = seed;
      emu_options().parallel = parallel;
      EXPECT_EQ("", run(GetParam(), false)) << "seed " << seed;
      const std::string said = run(GetParam(), true);
      EXPECT_NE(said.find(GetParam().message), std::string::npos)
          << "seed " << seed << ": " << said;
      EXPECT_NE(said.find(GetParam().name), std::string::npos) << said;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, GlobalMemory,
    testing::Values(
        Rule{"writes_past_the_end", writes_past_the_end, "writes outside of every tensor"},
        Rule{"reads_past_the_end", reads_past_the_end, "reads outside of every tensor"},
        Rule{"reads_before_the_front", reads_before_the_front, "reads outside of every tensor"},
        Rule{"copies_from_past_the_end", copies_from_past_the_end, "reads outside of every tensor"},
        Rule{"two_blocks_write", two_blocks_write, "race: writes what another block wrote"},
        Rule{"two_blocks_add", two_blocks_add, "race:"},
        Rule{"reads_what_another_block_writes", reads_what_another_block_writes, "race:"}),
    [](const testing::TestParamInfo<Rule>& rule) { return rule.param.name; });

}  // namespace
}  // namespace headloom::simt
