#pragma once

#include <complex>
#include <type_traits>

/// The references are templates on the number type T: float is what the fast versions are compared
/// with, double gives their tolerance, complex<double> gives exact derivatives by the complex step
/// (Squire & Trapp 1998): f'(x) = Im f(x + i h) / h, with h so small that nothing is rounded away.
/// Comparisons therefore look at the real part only.
namespace headloom {

template <class T>
T real_part(T x) {
  return x;
}
template <class R>
R real_part(std::complex<R> x) {
  return x.real();
}

template <class T>
struct RealOf {
  using type = T;
};
template <class R>
struct RealOf<std::complex<R>> {
  using type = R;
};
/// float of float, double of complex<double>.
template <class T>
using Real = typename RealOf<T>::type;

/// The type in which long sums over T are kept.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, float>, double, T>;

}  // namespace headloom
