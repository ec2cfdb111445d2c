// Backends by name.
#include <fmt/ranges.h>

#include <map>

#include "base/error.h"
#include "ops/backend.h"

namespace headloom {
namespace {

using Open = const Ops<float>& (*)(Precision);

std::map<std::string, Open>& known() {
  static std::map<std::string, Open> backends;
  return backends;
}

const Ops<float>& open_cpu(const BackendChoice& choice) {
  if (precision_named(choice.precision) != Precision::kFp32) {
    fail_usage("precision {} is for --device cuda; the CPU computes in fp32", choice.precision);
  }
  return cpu_ops();
}

const Ops<float>& open_cuda(Precision precision) {
  const auto found = known().find("cuda");
  if (found == known().end()) {
    fail_usage("this build has no CUDA: build it where nvcc is found, or take --device cpu");
  }
  return found->second(precision);
}

}  // namespace

Precision precision_named(const std::string& name) {
  for (std::size_t i = 0; i < std::size(EnumNames<Precision>::kNames); ++i) {
    if (name == EnumNames<Precision>::kNames[i]) return static_cast<Precision>(i);
  }
  fail_usage("precision \"{}\" is not known; fp32, tf32 and bf16 are", name);
}

void add_backend(const std::string& name, Open open) {
  known()[name] = open;
}

const Ops<float>& open_backend(const BackendChoice& choice, std::string* note) {
  if (choice.device == "cpu") return open_cpu(choice);
  if (choice.device == "cuda") return open_cuda(precision_named(choice.precision));
  if (choice.device == "auto") {
    const Precision precision = precision_named(choice.precision);
    try {
      return open_cuda(precision);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      if (note != nullptr) *note = fmt::format("device cpu in fp32, because: {}", error.what());
      return open_cpu({"cpu", "fp32"});
    }
  }
  const auto found = known().find(choice.device);
  if (found == known().end()) {
    fail_usage("device \"{}\" is not known; cpu, cuda and auto are", choice.device);
  }
  return found->second(precision_named(choice.precision));
}

const Ops<float>& open_device(const BackendChoice& choice) {
  std::string note;
  const Ops<float>& ops = open_backend(choice, &note);
  if (!note.empty()) fmt::print(stderr, "headloom: {}\n", note);
  return ops;
}

}  // namespace headloom
