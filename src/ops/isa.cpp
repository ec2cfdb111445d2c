// The targets that foreach_target.h compiles are fixed for the whole library by CMakeLists.txt.
#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "hwy/highway.h"
#include "hwy/targets.h"
#include "ops/backend.h"
#include "ops/cpu.h"

namespace headloom {
namespace {

struct Isa {
  const char* name;
  std::int64_t targets;
  std::int64_t floats;  ///< in a vector
};

constexpr Isa kIsas[] = {
    {"avx512", HWY_AVX3, 16},
    {"avx2", HWY_AVX2, 8},
    {"neon", HWY_NEON, 4},
    {"portable", HWY_EMU128 | HWY_SCALAR, HWY_TARGETS& HWY_EMU128 ? 4 : 1},
};

const Isa* g_active = nullptr;

bool usable(const Isa& isa) {
  return (isa.targets & HWY_TARGETS & (hwy::SupportedTargets() | HWY_EMU128 | HWY_SCALAR)) != 0;
}

const Isa& best_isa() {
  for (const Isa& isa : kIsas) {
    if (usable(isa)) return isa;
  }
  fail("this build holds no instruction set that this machine can run");
}

void apply(const Isa& isa) {
  hwy::SetSupportedTargetsForTest(isa.targets & HWY_TARGETS);
  hwy::GetChosenTarget().Update(isa.targets & HWY_TARGETS);
  g_active = &isa;
}

}  // namespace

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Isa& isa : kIsas) {
    hwy::SetSupportedTargetsForTest(0);
    if (usable(isa)) names.emplace_back(isa.name);
  }
  if (g_active != nullptr) apply(*g_active);
  return names;
}

void select_isa(const std::string& name) {
  const std::vector<std::string> names = available_isas();
  for (const Isa& isa : kIsas) {
    if (name == isa.name && std::find(names.begin(), names.end(), name) != names.end()) {
      apply(isa);
      return;
    }
  }
  fail_usage("instruction set {} is not available here; these are: {}", name,
             fmt::join(names, ", "));
}

std::string active_isa() {
  ensure_isa();
  return g_active->name;
}

std::int64_t vector_floats() {
  ensure_isa();
  return g_active->floats;
}

void ensure_isa() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (g_active != nullptr) return;
    const char* forced = std::getenv("HEADLOOM_ISA");
    if (forced != nullptr && forced[0] != '\0') {
      select_isa(forced);
    } else {
      apply(best_isa());
    }
  });
}

}  // namespace headloom
