#pragma once

#include "ops/check.h"

namespace headloom {

/// Copies heads from one layout to another: new keys into a cache, heads out of a fused projection.
///
/// Shapes: from, to [B,T,heads,HS], each with strides of its own. Writes: to (=).
template <class T>
struct CopyHeads {
  Heads<const T> from;
  Heads<T> to;
};

template <class T>
void check(const CopyHeads<T>& c) {
  const Heads<const T>& f = c.from;
  check_heads("copy_heads", "from", f, f.batch, f.seq, f.heads, f.head_dim);
  check_heads("copy_heads", "to", c.to, f.batch, f.seq, f.heads, f.head_dim);
}

}  // namespace headloom
