// The targets that foreach_target.h compiles are fixed for the whole library by CMakeLists.txt.
#include <dnnl.h>

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
  dnnl_cpu_isa_t library_limit;  ///< what the GEMM library may use beside it
};

constexpr Isa kIsas[] = {
    {"avx512", HWY_AVX3, dnnl_cpu_isa_all},
    {"avx2", HWY_AVX2, dnnl_cpu_isa_avx2},
    {"neon", HWY_NEON, dnnl_cpu_isa_all},
    {"portable", HWY_EMU128 | HWY_SCALAR, dnnl_cpu_isa_sse41},
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
  // The library refuses once it has run; an earlier, higher choice then stays for GEMM alone.
  dnnl_set_max_cpu_isa(isa.library_limit);
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
