#include "tensor/arena.h"

#include <sys/mman.h>

#include "base/error.h"

namespace headloom {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Arena::Arena(std::size_t bytes) {
  const std::size_t size = (bytes / kHugePage + 1) * kHugePage;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) fail("cannot allocate {} bytes of memory", size);
  ::madvise(data, size, MADV_HUGEPAGE);  // A wish: without it everything works, a little slower.
  data_ = std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(data), Unmap{size});
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
