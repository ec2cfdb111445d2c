#pragma once

#include <cstdint>

#include "simt/simt.h"
#include "tensor/view.h"

/// The CUDA kernels of the small ops, fp32. Each launches what its op's reference defines; whoever
/// calls them has checked the shapes. Kernels see only plain structs and views: headers of the ops
/// bring formatting along, which nvcc cannot digest.
namespace headloom::cuda {

/// As NormForward (norm.h). centred: layernorm; mean is null without it.
struct Norm {
  bool centred = false;
  float eps = 0;
  Matrix<const float> x, add;
  Matrix<float> sum, y;
  const float *gain = nullptr, *bias = nullptr;
  float *mean = nullptr, *rstd = nullptr;
};
void norm_forward(const Norm& args);

/// As NormBackward. Determinism: columns are added up in kColumnParts parts, whatever the card;
/// `parts` is scratch for 2 * kColumnParts * C floats.
struct NormGradient {
  bool centred = false;
  Matrix<const float> x, dy, dresidual;
  const float *gain = nullptr, *mean = nullptr, *rstd = nullptr;
  Matrix<float> dx;
  float *dgain = nullptr, *dbias = nullptr;
};
inline constexpr int kColumnParts = 64;
void norm_backward(const NormGradient& args, float* parts);

/// As Activation (activation.h), by the same numbers.
enum class Act { kGeluTanh, kRelu, kRelu2, kSwiGlu };
void activation_forward(Act kind, Matrix<const float> x, Matrix<float> y);
void activation_backward(Act kind, Matrix<const float> x, Matrix<const float> dy, Matrix<float> dx);

/// As EmbedForward; an empty position table adds nothing.
struct Embed {
  const std::int32_t* ids = nullptr;
  std::int64_t seq = 0, first_position = 0;
  Matrix<const float> tokens, positions;
  Matrix<float> y;
};
void embed_forward(const Embed& args);

/// As EmbedBackward. Determinism: one thread owns a column of every 64th token (and position) and
/// adds rows in the order of the batch.
struct EmbedGradient {
  const std::int32_t* ids = nullptr;
  std::int64_t seq = 0;
  Matrix<const float> dy;
  Matrix<float> dtokens, dpositions;
};
void embed_backward(const EmbedGradient& args);

/// As CrossEntropy.
struct Loss {
  Matrix<float> logits;
  std::int64_t vocab = 0;
  const std::int32_t* targets = nullptr;
  float* losses = nullptr;
  bool write_gradient = false;
  float scale = 1;
};
void cross_entropy(const Loss& args);

/// As AdamW; correct1, correct2 are 1 - beta^step.
struct Adam {
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float *m = nullptr, *v = nullptr;
  std::int64_t count = 0;
  float learning_rate = 0, beta1 = 0, beta2 = 0, eps = 0, decay = 0, scale = 1;
  float rest1 = 1, rest2 = 1;  ///< 1 - beta, rounded once
  float correct1 = 1, correct2 = 1;
};
void adamw(const Adam& args);

void zero(float* x, std::int64_t count);
/// sum[c] += x[r,c] over r. Determinism: as norm_backward; `parts` for kColumnParts * C floats.
void column_sum(Matrix<const float> x, float* sum, float* parts);
/// *result = sum of squares, in double. `parts` is scratch for kSquareParts doubles.
inline constexpr int kSquareParts = 2048;
void sum_squares(const float* x, std::int64_t count, double* parts, double* result);

/// As Rope: turns pairs (i, i + HS/2) of x [B,T,heads,HS] by their positions.
void rope(const Heads<float>& x, std::int64_t first_position, double base, bool inverse);

/// As CopyHeads.
void copy_heads(const Heads<const float>& from, const Heads<float>& to);

/// Rounds heads to bf16, rows of `dim` numbers side by side, those beyond head_dim zero.
/// Shapes: to [B,T,heads,dim], dim even.
void pack_heads(const Heads<const float>& from, simt::bf16* to, std::int64_t dim);
/// The way back: the first head_dim numbers of each row.
void unpack_heads(const simt::bf16* from, std::int64_t dim, const Heads<float>& to);

/// Rounds a matrix to bf16, rows `stride` (even) apart; what lies between is zero.
void round_rows(const Matrix<const float>& x, simt::bf16* y, std::int64_t stride);

}  // namespace headloom::cuda
