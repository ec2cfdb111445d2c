#include "tensor/device.h"

#include <sys/mman.h>

#include <cstring>

#include "base/error.h"

namespace headloom {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// With room to spare and cut to whole huge pages: memory that straddles two of them would get
/// small pages, scattered, and then kernels meet in the same sets of the cache.
std::size_t mapped_size(std::size_t bytes) {
  return (bytes / kHugePage + 1) * kHugePage;
}

void* allocate(std::size_t bytes) {
  const std::size_t size = mapped_size(bytes);
  void* mapped =
      ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail("cannot allocate {} bytes of memory", size);
  auto* begin = static_cast<std::byte*>(mapped);
  const std::size_t ahead = -reinterpret_cast<std::uintptr_t>(mapped) % kHugePage;
  if (ahead > 0) ::munmap(begin, ahead);
  if (ahead < kHugePage) ::munmap(begin + ahead + size, kHugePage - ahead);
  begin += ahead;
  ::madvise(begin, size, MADV_HUGEPAGE);  // A wish: without it everything works, a little slower.
  return begin;
}

void release(void* data, std::size_t bytes) {
  ::munmap(data, mapped_size(bytes));
}

void copy(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

}  // namespace

const Device& host_device() {
  static const Device device{.name = "cpu",
                             .is_host = true,
                             .allocate = allocate,
                             .release = release,
                             .upload = copy,
                             .download = copy,
                             .finish = [] {},
                             .available = [] { return std::int64_t{0}; }};
  return device;
}

void RepeatedWork::run(const Device& device, const Key& key, const std::function<void()>& work) {
  if (key != key_ || !seen_) {
    recording_.reset();
    key_ = key;
    seen_ = true;
    return work();
  }
  if (failed_) return work();
  if (recording_ == nullptr) {
    try {
      recording_ = device.record(work);
    } catch (const Error& error) {
      // Nothing was done while it was recorded: it can be done as it is, now and from here on.
      failed_ = true;
      fmt::print(stderr, "headloom: steps are not recorded: {}\n", error.what());
      return work();
    }
  }
  device.replay(recording_.get());
}

}  // namespace headloom
