// A card that does not exist: memory that the CPU may not touch, a queue, recordings.
#include "cuda/emulated.h"

#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <map>

#include "cuda/platform.h"
#include "simt/global_memory.h"
#include "simt/queue.h"

namespace headloom {
namespace {

using simt::emu::Recording;

constexpr std::size_t kPage = 4096;
/// Addresses of the device, of which only what is allocated takes memory.
constexpr std::size_t kAddresses = std::size_t{1} << 36;

EmulatedDeviceReport report;
std::int64_t memory_limit = 0;

/// One run of addresses, so that one call opens and closes all of the device's memory.
struct Memory {
  char* base = nullptr;
  std::size_t used = 0;
  std::multimap<std::size_t, char*> free;  ///< by size

  Memory() {
    void* mapped =
        ::mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) fail("emulated: the system gives no addresses");
    base = static_cast<char*>(mapped);
    simt::emu::set_device_addresses(base, kAddresses);
  }
  char* take(std::size_t size) {
    const auto found = free.find(size);
    if (found != free.end()) {
      char* data = found->second;
      free.erase(found);
      return data;
    }
    if (used + size > kAddresses) fail("emulated: no addresses are left for {} bytes", size);
    char* data = base + used;
    used += size;
    return data;
  }
};
Memory& memory() {
  static auto* all = new Memory;  // outlives arenas that are static
  return *all;
}

/// Lets the device's own work, and copies, at its memory.
class Access {
 public:
  Access() { protect(PROT_READ | PROT_WRITE); }
  ~Access() { protect(PROT_NONE); }

 private:
  static void protect(int how) { ::mprotect(memory().base, memory().used, how); }
};

/// With a guard behind it, which is watched but holds no tensor.
std::size_t whole_pages(std::size_t bytes) {
  constexpr std::size_t kGuard = 16 * kPage;
  return (bytes + kPage) / kPage * kPage + kGuard;
}

void* allocate(std::size_t bytes) {
  if (simt::emu::is_recording()) fail("emulated: an allocation while work is recorded");
  const std::size_t size = whole_pages(bytes);
  if (memory_limit > 0 && report.allocated + static_cast<std::int64_t>(size) > memory_limit) {
    fail("emulated: cannot allocate {} bytes, {} of {} are in use", size, report.allocated,
         memory_limit);
  }
  char* data = memory().take(size);
  report.allocated += static_cast<std::int64_t>(size);
  report.requested += static_cast<std::int64_t>(bytes);
  simt::emu::watch_memory(data, size);
  return data;
}

void release(void* data, std::size_t bytes) {
  const std::size_t size = whole_pages(bytes);
  simt::emu::forget_memory(data);
  ::madvise(data, size, MADV_DONTNEED);  // zeroes when it is taken again
  memory().free.emplace(size, static_cast<char*>(data));
  report.allocated -= static_cast<std::int64_t>(size);
  report.requested -= static_cast<std::int64_t>(bytes);
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (simt::emu::is_recording()) fail("emulated: a copy while work is recorded");
  const Access access;
  std::memcpy(to, from, bytes);
}

/// What lies between two tensors may go along with a copy of both, but not what lies beyond.
void require_inside(const void* data, std::size_t bytes) {
  const auto* p = static_cast<const char*>(data);
  if (!simt::emu::is_watched(p) || !simt::emu::is_watched(p + bytes - 1)) {
    fail("emulated: a copy of {} bytes that is not in the device's memory", bytes);
  }
}
void upload(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) require_inside(to, bytes);
  copy(to, from, bytes);
}
void download(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) require_inside(from, bytes);
  copy(to, from, bytes);
}

std::shared_ptr<void> record(const std::function<void()>& body) {
  const auto recording = std::make_shared<Recording>();
  simt::emu::set_recording(recording.get());
  try {
    body();
  } catch (...) {
    simt::emu::set_recording(nullptr);
    throw;
  }
  simt::emu::set_recording(nullptr);
  return recording;
}

void replay(void* recording) {
  ++report.replays;
  for (const std::function<void()>& work : *static_cast<Recording*>(recording)) work();
}

void run_with_access(const std::function<void()>& work) {
  const Access access;
  work();
}

const Device& device() {
  static const Device device{
      .name = "emulated",
      .is_host = false,
      .is_emulated = true,
      .allocate = allocate,
      .release = release,
      .upload = upload,
      .download = download,
      .finish = [] {},
      .available = [] { return memory_limit > 0 ? memory_limit - report.allocated : 0; },
      .record = record,
      .replay = replay,
      .gap = 64,
      .note_tensor = simt::emu::note_tensor};
  return device;
}

float number(const void* data, std::int64_t at, const cuda::Multiply& m) {
  if (m.bf16) return simt::to_float(static_cast<const simt::bf16*>(data)[at]);
  const float x = static_cast<const float*>(data)[at];
  if (!m.tf32) return x;
  const auto bits = std::bit_cast<std::uint32_t>(x);  // the nearest with 10 bits of mantissa
  return std::bit_cast<float>((bits + 0x1000U) & ~0x1fffU);
}

/// What cuBLASLt is asked for, by the definition of a multiplication.
void multiply_now(const cuda::Multiply& m) {
  for (std::int64_t i = 0; i < m.m; ++i) {
    for (std::int64_t j = 0; j < m.n; ++j) {
      float& c = m.c[i * m.ldc + j];
      double sum = m.accumulate ? c : m.bias != nullptr ? m.bias[j] : 0.0F;
      for (std::int64_t k = 0; k < m.k; ++k) {
        const float a = number(m.a, m.transpose_a ? k * m.lda + i : i * m.lda + k, m);
        const float b = number(m.b, m.transpose_b ? j * m.ldb + k : k * m.ldb + j, m);
        sum += double{a} * double{b};
      }
      c = static_cast<float>(sum);
    }
  }
}

void multiply(const cuda::Multiply& m) {
  simt::emu::submit([m] { multiply_now(m); });
}

}  // namespace

const Ops<float>& emulated_ops(Precision precision) {
  static const cuda::Platform platform{"emulated", &device(), multiply};
  simt::emu::set_runner(run_with_access);
  return cuda::ops_on(platform, precision);
}

EmulatedDeviceReport emulated_device_report() {
  return report;
}

void set_emulated_memory(std::int64_t bytes) {
  memory_limit = bytes;
}

}  // namespace headloom
