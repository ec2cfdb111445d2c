#pragma once

#include <vector>

#include "tensor/device.h"
#include "tensor/view.h"

namespace headloom {

/// Heads as the CPU can read them: the view itself where the CPU may follow it, else a copy of the
/// device's numbers, with the same strides.
template <class T>
class HostHeads {
 public:
  HostHeads(const Device& device, const Heads<T>& heads) : device_(device), heads_(heads) {
    view_ = heads;
    if (device.is_host) return;
    const std::int64_t span = (heads.batch - 1) * heads.batch_stride +
                              (heads.seq - 1) * heads.seq_stride +
                              (heads.heads - 1) * heads.head_stride + heads.head_dim;
    copy_.resize(static_cast<std::size_t>(span));
    device.download(copy_.data(), heads.data, bytes());
    view_.data = copy_.data();
  }

  const Heads<T>& view() const { return view_; }
  /// Brings what was written to the view back to the device.
  void write_back() {
    if (!device_.is_host) device_.upload(const_cast<Number*>(heads_.data), copy_.data(), bytes());
  }

 private:
  using Number = std::remove_const_t<T>;
  std::size_t bytes() const { return copy_.size() * sizeof(T); }

  const Device& device_;
  Heads<T> heads_, view_;
  std::vector<Number> copy_;
};

}  // namespace headloom
