#include "tensor/arena.h"

#include <sys/mman.h>

#include "base/error.h"

namespace headloom {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Arena::Arena(std::size_t bytes) {
  // Mapped with room to spare and cut to whole huge pages: an arena that straddles two of them
  // would get small pages, scattered over memory, and then kernels meet in the same sets of the
  // cache.
  const std::size_t size = (bytes / kHugePage + 1) * kHugePage;
  void* mapped =
      ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail("cannot allocate {} bytes of memory", size);
  auto* begin = static_cast<std::byte*>(mapped);
  const std::size_t ahead = -reinterpret_cast<std::uintptr_t>(mapped) % kHugePage;
  if (ahead > 0) ::munmap(begin, ahead);
  if (ahead < kHugePage) ::munmap(begin + ahead + size, kHugePage - ahead);
  begin += ahead;
  ::madvise(begin, size, MADV_HUGEPAGE);  // A wish: without it everything works, a little slower.
  data_ = std::unique_ptr<std::byte, Unmap>(begin, Unmap{size});
}

void Arena::Unmap::operator()(std::byte* data) const {
  ::munmap(data, size);
}

void* Arena::take_bytes(std::size_t bytes) {
  void* place = data_ ? data_.get() + used_ : nullptr;
  used_ += (bytes + kAlign - 1) / kAlign * kAlign;
  return place;
}

}  // namespace headloom
