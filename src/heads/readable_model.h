#pragma once

#include "model/host_workspace.h"

namespace headloom {

/// A model on some device, over weights in the host's memory, whose activations the CPU can read
/// after a pass: what every experiment on heads begins with.
class ReadableModel {
 public:
  ReadableModel(const ModelConfig& config, const Ops<float>& ops, float* parameters,
                std::int64_t batch, std::int64_t seq, Use use)
      : copy_(ops.device->is_host ? nullptr : copy_of(config, *ops.device, parameters)),
        gpt_(config, ops, copy_ ? copy_->data() : parameters, batch, seq, use),
        host_(gpt_) {}
  ReadableModel(const ReadableModel&) = delete;
  ReadableModel& operator=(const ReadableModel&) = delete;

  Gpt<float>& gpt() { return gpt_; }
  /// See HostWorkspace.
  HostWorkspace& host() { return host_; }

 private:
  static std::unique_ptr<ParameterArray<float>> copy_of(const ModelConfig& config,
                                                        const Device& device,
                                                        const float* parameters) {
    const ParameterLayout layout(config);
    auto copy = std::make_unique<ParameterArray<float>>(layout, device);
    copy->write([&](float* x) { std::copy_n(parameters, layout.stored(), x); });
    return copy;
  }

  std::unique_ptr<ParameterArray<float>> copy_;
  Gpt<float> gpt_;
  HostWorkspace host_;
};

}  // namespace headloom
