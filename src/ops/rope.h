#pragma once

#include "ops/check.h"

namespace headloom {

/// Rotates each pair of dimensions (i, i + HS/2) of every head by position * base^(-2i/HS), so that
/// the product of a query and a key depends on how far apart they stand.
///
/// Shapes: x [B,T,heads,HS], HS even. Writes: x, in place. Position t of x stands at
/// first_position + t. `inverse` rotates back: that is the gradient. Determinism: bitwise
/// repeatable. Source: Su et al. 2021, section 3.2.2, with the pairs of LLaMA's published models.
template <class T>
struct Rope {
  Heads<T> x;
  std::int64_t first_position = 0;
  double base = 10000.0;
  bool inverse = false;
};

template <class T>
void check(const Rope<T>& r) {
  check_heads("rope", "x", r.x, r.x.batch, r.x.seq, r.x.heads, r.x.head_dim);
  if (r.x.head_dim % 2 != 0) fail("rope: head_dim {} is odd and has no pairs", r.x.head_dim);
}

}  // namespace headloom
