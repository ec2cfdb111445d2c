#include "model/host_workspace.h"

namespace headloom {

HostWorkspace::HostWorkspace(const Gpt<float>& model)
    : model_(model), memory_(host_device()), work_(&model.workspace()) {
  const Device& device = *model.ops().device;
  if (device.is_host) return;
  memory_.gap = device.gap;
  memory_.chunk_numbers = device.chunk_numbers;
  arena_ = arrange(
      [&](Arena& arena) {
        copy_ = arrange_workspace<float>(arena, model.config(), model.max_batch(), model.max_seq(),
                                         model.use());
      },
      memory_);
  work_ = &copy_;
}

void HostWorkspace::bring(const float* begin, const float* end) {
  if (work_ != &copy_) return;
  // Both are laid out by the same function, so a tensor stands equally far from the front of each.
  const float* front = model_.workspace().blocks[0].x.data;
  model_.ops().device->download(copy_.blocks[0].x.data + (begin - front), begin,
                                static_cast<std::size_t>(end - begin) * sizeof(float));
}

const BlockActivations<float>& HostWorkspace::block(std::int64_t layer) {
  const auto l = static_cast<std::size_t>(layer);
  const BlockActivations<float>& acts = model_.workspace().blocks[l];
  bring(acts.x.data, acts.active.data + acts.active.rows * acts.active.cols);
  return work_->blocks[l];
}

const Workspace<float>& HostWorkspace::outside_blocks() {
  const Workspace<float>& work = model_.workspace();
  const std::int64_t rows = model_.max_batch() * model_.max_seq();
  bring(work.branch.data, work.rstd_final + rows);  // the logits lie between
  bring(work.losses, work.losses + rows);
  return *work_;
}

}  // namespace headloom
