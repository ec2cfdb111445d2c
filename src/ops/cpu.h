#pragma once

#include "ops/backend.h"

/// The kernels of the CPU table; call them through cpu_ops(), which checks shapes.
namespace headloom {

/// Chooses the instruction set on first use: HEADLOOM_ISA, or the best one.
void ensure_isa();

void gemm_cpu(const Gemm<float>& args);
/// gemm_cpu's way for a few rows: A must not be transposed.
void gemm_rows_cpu(const Gemm<float>& args);
/// gemm_cpu's way for many rows.
void gemm_blocks_cpu(const Gemm<float>& args);
void rope_cpu(const Rope<float>& args);
/// Tasks into which attention cuts one (batch, head) of `positions` queries when there are only
/// `tasks` of them: every thread should have two, and every task a block of 64.
std::int64_t attend_parts(std::int64_t tasks, std::int64_t positions);
void attend_forward_cpu(const AttendForward<float>& args);
/// The part of attend_backward that writes dgate.
void gate_gradient_cpu(const AttendBackward<float>& args);
void attend_backward_cpu(const AttendBackward<float>& args);
void attend_probe_cpu(const AttendProbe<float>& args);
void norm_forward_cpu(const NormForward<float>& args);
void norm_backward_cpu(const NormBackward<float>& args);
void activation_forward_cpu(const ActivationForward<float>& args);
void activation_backward_cpu(const ActivationBackward<float>& args);
void embed_forward_cpu(const EmbedForward<float>& args);
void embed_backward_cpu(const EmbedBackward<float>& args);
void cross_entropy_cpu(const CrossEntropy<float>& args);
void adamw_cpu(const AdamW<float>& args);
void column_sum_cpu(const ColumnSum<float>& args);
void sum_squares_cpu(const SumSquares<float>& args);
void zero_cpu(const Zero<float>& args);
void copy_heads_cpu(const CopyHeads<float>& c);

}  // namespace headloom
