// Memory between two kernels of the CUDA ops.
#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "cuda/platform.h"
#include "ops/attend_cuda.h"
#include "ops/cuda_kernels.h"
#include "tensor/arena.h"

namespace headloom::cuda {
namespace {

using Plan = std::vector<std::pair<Slot, std::int64_t>>;

/// What training takes of each slot, in bytes.
Plan plan_of(const ScratchSizes& s, Precision precision) {
  constexpr std::int64_t kFloat = sizeof(float), kDouble = sizeof(double), kHalf = 2;
  const std::int64_t rows = s.batch * s.seq;
  Plan plan = {
      {Slot::kWorkspace, static_cast<std::int64_t>(platform().multiply_workspace)},
      {Slot::kDelta, kFloat * rows * s.heads},
      {Slot::kParts, std::max(2 * kColumnParts * kFloat * s.widest, (kSquareParts + 1) * kDouble)}};
  if (precision != Precision::kBf16) return plan;
  for (const Slot factor : {Slot::kLeft, Slot::kRight}) {
    plan.emplace_back(factor, kHalf * s.largest_operand);
  }
  for (const Slot heads : {Slot::kQuery, Slot::kKey, Slot::kValue, Slot::kOut, Slot::kDout,
                           Slot::kDquery, Slot::kDkey, Slot::kDvalue}) {
    plan.emplace_back(heads, kHalf * rows * s.heads * tile_head_dim(s.head_dim));
  }
  return plan;
}

}  // namespace

void* scratch_bytes(Slot slot, std::size_t bytes) {
  struct Place {
    std::size_t capacity = 0;
    void* data = nullptr;
  };
  static std::array<Place, static_cast<std::size_t>(Slot::kCount)> places;
  // Never released: the driver may be gone before a static is.
  static auto* kept = new std::deque<Arena>;
  Place& place = places[static_cast<std::size_t>(slot)];
  if (bytes > place.capacity) {
    kept->emplace_back(bytes + platform().device->gap, *platform().device);
    place = {bytes, kept->back().take<std::byte>(static_cast<std::int64_t>(bytes))};
  }
  return place.data;
}

std::int64_t planned_scratch(const ScratchSizes& sizes, Precision precision) {
  std::int64_t bytes = 0;
  for (const auto& [slot, size] : plan_of(sizes, precision)) bytes += size;
  return bytes;
}

void reserve_scratch(const ScratchSizes& sizes, Precision precision) {
  for (const auto& [slot, size] : plan_of(sizes, precision)) {
    scratch_bytes(slot, static_cast<std::size_t>(size));
  }
}

}  // namespace headloom::cuda
