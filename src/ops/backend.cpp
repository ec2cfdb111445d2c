#include "ops/backend.h"

#include <complex>

#include "ops/activation_ref.h"
#include "ops/adamw_ref.h"
#include "ops/attend_probe_ref.h"
#include "ops/attend_ref.h"
#include "ops/copy_ref.h"
#include "ops/cpu.h"
#include "ops/cross_entropy_ref.h"
#include "ops/embed_ref.h"
#include "ops/gemm_ref.h"
#include "ops/norm_ref.h"
#include "ops/reduce_ref.h"
#include "ops/rope_ref.h"

namespace headloom {

template <class T>
const Ops<T>& ref_ops() {
  static const Ops<T> ops{
      .name = "ref",
      .gemm = {gemm_ref<T>},
      .rope = {rope_ref<T>},
      .attend_forward = {attend_forward_ref<T>},
      .attend_backward = {attend_backward_ref<T>},
      .attend_probe = {attend_probe_ref<T>},
      .norm_forward = {norm_forward_ref<T>},
      .norm_backward = {norm_backward_ref<T>},
      .activation_forward = {activation_forward_ref<T>},
      .activation_backward = {activation_backward_ref<T>},
      .embed_forward = {embed_forward_ref<T>},
      .embed_backward = {embed_backward_ref<T>},
      .cross_entropy = {cross_entropy_ref<T>},
      .adamw = {adamw_ref<T>},
      .column_sum = {column_sum_ref<T>},
      .sum_squares = {sum_squares_ref<T>},
      .zero = {zero_ref<T>},
      .copy_heads = {copy_heads_ref<T>},
  };
  return ops;
}

template const Ops<float>& ref_ops<float>();
template const Ops<double>& ref_ops<double>();
template const Ops<std::complex<double>>& ref_ops<std::complex<double>>();

const Ops<float>& cpu_ops() {
  ensure_isa();
  static const Ops<float> ops{
      .name = "cpu",
      .gemm = {gemm_cpu},
      .rope = {rope_cpu},
      .attend_forward = {attend_forward_cpu},
      .attend_backward = {attend_backward_cpu},
      .attend_probe = {attend_probe_cpu},
      .norm_forward = {norm_forward_cpu},
      .norm_backward = {norm_backward_cpu},
      .activation_forward = {activation_forward_cpu},
      .activation_backward = {activation_backward_cpu},
      .embed_forward = {embed_forward_cpu},
      .embed_backward = {embed_backward_cpu},
      .cross_entropy = {cross_entropy_cpu},
      .adamw = {adamw_cpu},
      .column_sum = {column_sum_cpu},
      .sum_squares = {sum_squares_cpu},
      .zero = {zero_cpu},
      .copy_heads = {copy_heads_cpu},
  };
  return ops;
}

}  // namespace headloom
