#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace headloom {

/// Where numbers lie and the queue in which work on them is done, as a table of functions: the
/// memory of this machine, or that of a card. Only where `is_host` may the CPU follow an address.
/// Ops put work into the queue; it is done in the order in which it was put in.
struct Device {
  const char* name = "";
  bool is_host = true;
  bool is_emulated = false;  ///< works like a card, at a millionth of its speed

  /// Zeroed memory, aligned to 256 bytes. Errors: kFailed with the bytes wanted and what there is.
  void* (*allocate)(std::size_t bytes) = nullptr;
  void (*release)(void* data, std::size_t bytes) = nullptr;

  /// Copies from and to memory of the CPU, after all work put in before; done when they return.
  void (*upload)(void* to, const void* from, std::size_t bytes) = nullptr;
  void (*download)(void* to, const void* from, std::size_t bytes) = nullptr;
  /// Returns when all work that was put in is done.
  void (*finish)() = nullptr;

  /// Bytes that could still be allocated; 0: not known.
  std::int64_t (*available)() = nullptr;

  /// Records the work that `body` puts in instead of doing it; null where there is nothing to gain.
  /// What `body` computes on the CPU is not part of it.
  std::shared_ptr<void> (*record)(const std::function<void()>& body) = nullptr;
  /// Puts recorded work in, with the arguments that it was recorded with.
  void (*replay)(void* recording) = nullptr;

  /// How many logits are made at a time: 16 MB of them stay in the caches of a CPU; a card wants
  /// work for all of its processors.
  std::int64_t chunk_numbers = std::int64_t{4} << 20;

  /// Memory left free after every tensor of an arena, in bytes, and a word to whoever watches where
  /// tensors lie. For the emulation.
  std::size_t gap = 0;
  void (*note_tensor)(const void* data, std::size_t bytes) = nullptr;
};

/// The memory of this machine, on huge pages where the system gives them; work is done at once.
const Device& host_device();

/// Work that is put in again and again with the same arguments. The first time under a new key it
/// is done as it is, the second time recorded, and from then on replayed as a whole. For devices
/// that record.
class RepeatedWork {
 public:
  /// What decides the arguments of the work.
  using Key = std::array<std::int64_t, 4>;
  void run(const Device& device, const Key& key, const std::function<void()>& work);

 private:
  Key key_{};
  bool seen_ = false;
  bool failed_ = false;  ///< to record; then the work is always done as it is
  std::shared_ptr<void> recording_;
};

}  // namespace headloom
