#include "attention/project.h"

#include <complex>

namespace headloom {

template <class T>
void project_forward(const Ops<T>& ops, const ProjectForward<T>& p) {
  ops.gemm({.a = p.x, .b = p.weight, .c = p.qkv, .bias = p.bias});
}

template <class T>
void project_backward(const Ops<T>& ops, const ProjectBackward<T>& p) {
  ops.gemm({.a = p.dqkv, .b = p.weight, .transpose_b = true, .c = p.dx});
  ops.gemm({.a = p.x, .transpose_a = true, .b = p.dqkv, .c = p.dweight, .accumulate = true});
  if (p.dbias != nullptr) ops.column_sum({.x = p.dqkv, .sum = p.dbias});
}

#define HEADLOOM_INSTANTIATE(T)                                              \
  template void project_forward<T>(const Ops<T>&, const ProjectForward<T>&); \
  template void project_backward<T>(const Ops<T>&, const ProjectBackward<T>&);
HEADLOOM_INSTANTIATE(float)
HEADLOOM_INSTANTIATE(double)
HEADLOOM_INSTANTIATE(std::complex<double>)
#undef HEADLOOM_INSTANTIATE

}  // namespace headloom
