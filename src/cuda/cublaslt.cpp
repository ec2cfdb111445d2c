// Multiplications by cuBLASLt. It lays matrices out by columns; ours lie by rows, so it is asked
// for the transposed product: C^T = op(B)^T op(A)^T, whose bias runs along its rows.
#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/error.h"
#include "cuda/card.h"

namespace headloom::cuda {
namespace {

/// What NVIDIA advises for Hopper; older cards want 4 MiB.
constexpr std::size_t kWorkspace = std::size_t{32} << 20;

/// The functions of the library, opened when a card is first used.
struct Library {
  decltype(&::cublasLtCreate) create;
  decltype(&::cublasLtMatmul) matmul;
  decltype(&::cublasLtMatmulDescCreate) desc_create;
  decltype(&::cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&::cublasLtMatrixLayoutCreate) layout_create;
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&::cublasLtGetStatusName) status_name;
  cublasLtHandle_t handle = nullptr;
};

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) fail("cuBLASLt has no function {}", name);
}

std::string library_name() {
  return fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
}

void* open_library() {
  for (const std::string& name :
       {library_name(), std::string(HEADLOOM_CUDA_LIBRARIES "/") + library_name()}) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  fail_usage("--device cuda needs {}, which could not be loaded: {}", library_name(), dlerror());
}

Library load() {
  void* handle = open_library();
  Library l{};
  find(handle, "cublasLtCreate", l.create);
  find(handle, "cublasLtMatmul", l.matmul);
  find(handle, "cublasLtMatmulDescCreate", l.desc_create);
  find(handle, "cublasLtMatmulDescSetAttribute", l.desc_set);
  find(handle, "cublasLtMatrixLayoutCreate", l.layout_create);
  find(handle, "cublasLtMatmulPreferenceCreate", l.preference_create);
  find(handle, "cublasLtMatmulPreferenceSetAttribute", l.preference_set);
  find(handle, "cublasLtMatmulAlgoGetHeuristic", l.heuristic);
  find(handle, "cublasLtGetStatusName", l.status_name);
  return l;
}

void check_lt(const Library& l, cublasStatus_t status, const char* call, const Multiply& m) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail("gemm [{}, {}] x [{}, {}] in {}: {}: {} ({})", m.m, m.k, m.k, m.n,
       m.bf16   ? "bf16"
       : m.tf32 ? "tf32"
                : "fp32",
       call, l.status_name(status), static_cast<int>(status));
}

const Library& library() {
  static const Library loaded = [] {
    Library l = load();
    check_lt(l, l.create(&l.handle), "cublasLtCreate", {});
    return l;
  }();
  return loaded;
}

/// To how many bytes an address is aligned, as far as cuBLASLt cares.
std::int64_t alignment(const void* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return std::min<std::int64_t>(256, static_cast<std::int64_t>(address & (~address + 1)));
}

/// Everything about a multiplication but its addresses; of those, how they are aligned, because
/// faster algorithms load more at a time.
using Key = std::array<std::int64_t, 11>;
Key key_of(const Multiply& m) {
  const std::int64_t flags = m.transpose_a | m.transpose_b << 1 | m.bf16 << 2 | m.tf32 << 3 |
                             (m.bias != nullptr) << 4 | m.accumulate << 5;
  const std::int64_t bias = m.bias != nullptr ? alignment(m.bias) : 256;
  return {m.m,           m.n, m.k, m.lda, m.ldb, m.ldc, flags, bias, alignment(m.a), alignment(m.b),
          alignment(m.c)};
}

struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
  cublasLtMatmulHeuristicResult_t chosen{};
};

template <class Value>
void set(const Library& l, const Plan& plan, cublasLtMatmulDescAttributes_t attribute,
         const Value& value, const Multiply& m) {
  check_lt(l, l.desc_set(plan.operation, attribute, &value, sizeof value),
           "cublasLtMatmulDescSetAttribute", m);
}

cublasLtMatrixLayout_t layout(const Library& l, bool bf16, std::int64_t rows, std::int64_t cols,
                              std::int64_t stride, const Multiply& m) {
  cublasLtMatrixLayout_t made = nullptr;
  // Our rows are its columns.
  check_lt(l,
           l.layout_create(&made, bf16 ? CUDA_R_16BF : CUDA_R_32F, static_cast<std::uint64_t>(cols),
                           static_cast<std::uint64_t>(rows), stride),
           "cublasLtMatrixLayoutCreate", m);
  return made;
}

void choose(const Library& l, Plan& plan, const Multiply& m) {
  cublasLtMatmulPreference_t preference = nullptr;
  check_lt(l, l.preference_create(&preference), "cublasLtMatmulPreferenceCreate", m);
  const std::size_t workspace = kWorkspace;
  check_lt(l,
           l.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                            sizeof workspace),
           "cublasLtMatmulPreferenceSetAttribute", m);
  const std::pair<cublasLtMatmulPreferenceAttributes_t, const void*> operands[] = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, m.b},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, m.a},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, m.c},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, m.c}};
  for (const auto& [attribute, address] : operands) {
    const auto bytes = static_cast<std::uint32_t>(alignment(address));
    check_lt(l, l.preference_set(preference, attribute, &bytes, sizeof bytes),
             "cublasLtMatmulPreferenceSetAttribute", m);
  }
  int found = 0;
  check_lt(l,
           l.heuristic(l.handle, plan.operation, plan.left, plan.right, plan.result, plan.result,
                       preference, 1, &plan.chosen, &found),
           "cublasLtMatmulAlgoGetHeuristic", m);
  if (found == 0) check_lt(l, CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic", m);
}

Plan make_plan(const Library& l, const Multiply& m) {
  Plan plan;
  const cublasComputeType_t compute = m.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_lt(l, l.desc_create(&plan.operation, compute, CUDA_R_32F), "cublasLtMatmulDescCreate", m);
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(l, plan, CUBLASLT_MATMUL_DESC_TRANSA, operation(m.transpose_b), m);
  set(l, plan, CUBLASLT_MATMUL_DESC_TRANSB, operation(m.transpose_a), m);
  if (m.bias != nullptr) {
    set(l, plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, m);
    set(l, plan, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F, m);
    set(l, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, m.bias, m);
  }
  plan.left =
      m.transpose_b ? layout(l, m.bf16, m.n, m.k, m.ldb, m) : layout(l, m.bf16, m.k, m.n, m.ldb, m);
  plan.right =
      m.transpose_a ? layout(l, m.bf16, m.k, m.m, m.lda, m) : layout(l, m.bf16, m.m, m.k, m.lda, m);
  plan.result = layout(l, false, m.m, m.n, m.ldc, m);
  choose(l, plan, m);
  return plan;
}

}  // namespace

std::size_t open_cublaslt() {
  library();
  return kWorkspace;
}

void multiply_by_cublaslt(const Multiply& m) {
  static std::map<Key, Plan> plans;  // a model asks for a few dozen
  const Library& l = library();
  auto found = plans.find(key_of(m));
  if (found == plans.end()) found = plans.emplace(key_of(m), make_plan(l, m)).first;
  const Plan& plan = found->second;
  if (m.bias != nullptr) set(l, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, m.bias, m);
  const float one = 1.0F, beta = m.accumulate ? 1.0F : 0.0F;
  void* workspace = scratch_bytes(Slot::kWorkspace, kWorkspace);
  check_lt(
      l,
      l.matmul(l.handle, plan.operation, &one, m.b, plan.left, m.a, plan.right, &beta, m.c,
               plan.result, m.c, plan.result, &plan.chosen.algo, workspace, kWorkspace, stream()),
      "cublasLtMatmul", m);
}

}  // namespace headloom::cuda
