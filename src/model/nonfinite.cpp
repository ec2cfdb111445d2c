#include <cmath>

#include "model/host_workspace.h"

namespace headloom {
namespace {

/// First column of a matrix, counted from its front, that holds a non-finite number; -1 if none.
std::int64_t nonfinite_column(const Matrix<const float>& m) {
  for (std::int64_t r = 0; r < m.rows; ++r) {
    for (std::int64_t c = 0; c < m.cols; ++c) {
      if (!std::isfinite(m(r, c))) return c;
    }
  }
  return -1;
}

/// Head that owns a column of the fused projection.
std::int64_t head_of_column(const HeadLayout& layout, std::int64_t column) {
  if (column >= layout.query_width()) column = (column - layout.query_width()) % layout.kv_width();
  return column / layout.head_dim;
}

std::string in_activations(const Gpt<float>& model, std::int64_t rows) {
  HostWorkspace work(model);
  for (std::int64_t l = 0; l < model.config().n_layers; ++l) {
    const BlockActivations<float>& acts = work.block(l);
    const HeadLayout heads = model.config().head_layout(l);
    const auto check = [&](const char* name, Matrix<float> m, bool by_head) -> std::string {
      m.rows = rows;
      const std::int64_t column = nonfinite_column(m);
      if (column < 0) return "";
      if (by_head) {
        return fmt::format("activation {} of head L{}H{}", name, l, head_of_column(heads, column));
      }
      return fmt::format("activation {} of layer {}", name, l);
    };
    std::string found = check("residual stream", acts.x, false);
    if (found.empty()) found = check("norm 1", acts.norm1, false);
    if (found.empty()) found = check("q, k, v", acts.qkv, true);
    if (found.empty()) found = check("attention", acts.heads, true);
    if (found.empty()) found = check("stream after attention", acts.mid, false);
    if (found.empty()) found = check("norm 2", acts.norm2, false);
    if (found.empty()) found = check("mlp hidden", acts.hidden, false);
    if (found.empty()) found = check("mlp active", acts.active, false);
    if (!found.empty()) return found;
  }
  if (nonfinite_column(work.outside_blocks().final_norm.row_range(0, rows)) >= 0)
    return "activation final norm";
  return "";
}

/// The first tensor of a parameter-like array, from the last to the first or in order.
std::string in_tensors(const Gpt<float>& model, const float* base, const char* kind,
                       bool backwards) {
  const auto& tensors = model.layout().tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ParameterInfo& info = tensors[backwards ? tensors.size() - 1 - i : i];
    const std::int64_t cols = info.shape.back();
    const Matrix<const float> tensor(base + info.offset, info.size() / cols, cols);
    const std::int64_t column = nonfinite_column(tensor);
    if (column < 0) continue;
    if (info.name.find(".c_attn.") != std::string::npos) {
      const HeadLayout heads = model.config().head_layout(info.layer);
      return fmt::format("{} {} of head L{}H{}", kind, info.name, info.layer,
                         head_of_column(heads, column));
    }
    return fmt::format("{} {}", kind, info.name);
  }
  return "";
}

}  // namespace

std::string find_nonfinite(const Gpt<float>& model, const float* parameters, const float* gradients,
                           std::int64_t rows) {
  std::string found = in_tensors(model, parameters, "parameter", false);
  if (found.empty()) found = in_activations(model, rows);
  if (found.empty()) found = in_tensors(model, gradients, "gradient", true);
  return found;
}

}  // namespace headloom
