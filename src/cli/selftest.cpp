#include "selftest/selftest.h"

#include <fmt/core.h>

#include <chrono>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/device.h"
#include "ops/backend.h"

namespace headloom {

void add_selftest_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "selftest", "Check this build on this machine: kernels, gradients, resume, determinism.");
  auto backend = std::make_shared<BackendChoice>();
  auto only = std::make_shared<std::string>();
  command->add_option("--only", *only, "only the checks whose names contain this");
  add_device_options(*command, *backend);
  command->callback([backend, only] {
    const Ops<float>& ops = open_device(*backend);
    fmt::print("{}\n", device_words(ops));
    int failed = 0;
    for (const SelfCheck& check : self_checks(ops)) {
      if (check.name.find(*only) == std::string::npos) continue;
      const auto start = std::chrono::steady_clock::now();
      const std::string problem = check.run();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      fmt::print("{:<64}{:>6.2f} s  {}\n", check.name, took.count(),
                 problem.empty() ? "ok" : problem);
      failed += problem.empty() ? 0 : 1;
    }
    if (failed > 0) fail("{} checks failed; please report the lines above", failed);
  });
}

}  // namespace headloom
