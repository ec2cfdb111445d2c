#include "cli/device.h"

#include "base/error.h"
#include "base/threads.h"

namespace headloom {

void add_device_options(CLI::App& command, BackendChoice& choice) {
  command
      .add_option("--device", choice.device,
                  "cpu, cuda, or auto: cuda where it can be used (default cpu)")
      ->group("Device");
  command
      .add_option("--precision", choice.precision,
                  "of multiplications on a card: fp32, tf32 or bf16 operands (default fp32)")
      ->group("Device");
}

std::string device_words(const Ops<float>& ops) {
  return ops.device->is_host ? fmt::format("{} threads, {}", thread_count(), active_isa())
                             : ops.name;
}

}  // namespace headloom
