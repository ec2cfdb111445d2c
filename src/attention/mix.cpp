#include "attention/mix.h"

#include <complex>

namespace headloom {

template <class T>
void mix_forward(const Ops<T>& ops, const MixForward<T>& m) {
  ops.gemm({.a = m.heads, .b = m.weight, .c = m.y, .bias = m.bias});
}

template <class T>
void mix_backward(const Ops<T>& ops, const MixBackward<T>& m) {
  ops.gemm({.a = m.dy, .b = m.weight, .transpose_b = true, .c = m.dheads});
  ops.gemm({.a = m.heads, .transpose_a = true, .b = m.dy, .c = m.dweight, .accumulate = true});
  if (m.dbias != nullptr) ops.column_sum({.x = m.dy, .sum = m.dbias});
}

#define HEADLOOM_INSTANTIATE(T)                                      \
  template void mix_forward<T>(const Ops<T>&, const MixForward<T>&); \
  template void mix_backward<T>(const Ops<T>&, const MixBackward<T>&);
HEADLOOM_INSTANTIATE(float)
HEADLOOM_INSTANTIATE(double)
HEADLOOM_INSTANTIATE(std::complex<double>)
#undef HEADLOOM_INSTANTIATE

}  // namespace headloom
