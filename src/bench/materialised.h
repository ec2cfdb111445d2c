#pragma once

#include "tensor/view.h"

namespace headloom {

/// Causal attention as the textbook has it: all scores of a head as a T x T matrix, a softmax over
/// its rows, a second multiplication; the multiplications are the model's own. What the tiled
/// kernel is measured against, and never part of a model. Shapes as AttendForward; scores [T,T].
/// Writes: out, scores (=).
void attend_materialised(const Heads<const float>& q, const Heads<const float>& k,
                         const Heads<const float>& v, const Heads<float>& out,
                         const Matrix<float>& scores);

}  // namespace headloom
