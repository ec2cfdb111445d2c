#pragma once

#include <vector>

#include "tensor/arena.h"

namespace headloom::test {

/// Numbers in the memory of a device, from and to vectors.
class DeviceArray {
 public:
  DeviceArray(const Device& device, const std::vector<float>& numbers)
      : count_(numbers.size()),
        arena_(arrange([&](Arena& a) { data_ = a.take<float>(static_cast<std::int64_t>(count_)); },
                       device)) {
    device.upload(data_, numbers.data(), count_ * sizeof(float));
  }
  /// Zeros.
  DeviceArray(const Device& device, std::int64_t count)
      : DeviceArray(device, std::vector<float>(static_cast<std::size_t>(count))) {}

  float* data() const { return data_; }
  std::vector<float> read() const {
    std::vector<float> numbers(count_);
    arena_.device().download(numbers.data(), data_, count_ * sizeof(float));
    return numbers;
  }

 private:
  std::size_t count_;
  float* data_ = nullptr;
  Arena arena_;
};

}  // namespace headloom::test
