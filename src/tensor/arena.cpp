#include "tensor/arena.h"

namespace headloom {
namespace {

constexpr std::size_t kAlign = 64;

}  // namespace

Arena::Arena(std::size_t bytes, const Device& device)
    : device_(&device),
      data_(static_cast<std::byte*>(device.allocate(bytes)), Release{&device, bytes}) {}

void* Arena::take_bytes(std::size_t bytes) {
  void* place = data_ ? data_.get() + used_ : nullptr;
  if (place != nullptr && device_->note_tensor != nullptr) device_->note_tensor(place, bytes);
  used_ += (bytes + device_->gap + kAlign - 1) / kAlign * kAlign;
  return place;
}

}  // namespace headloom
