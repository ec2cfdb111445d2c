#pragma once

#include <algorithm>

#include "ops/copy.h"

namespace headloom {

/// to[b,t,h,:] = from[b,t,h,:]
template <class T>
void copy_heads_ref(const CopyHeads<T>& c) {
  for (std::int64_t b = 0; b < c.from.batch; ++b) {
    for (std::int64_t t = 0; t < c.from.seq; ++t) {
      for (std::int64_t h = 0; h < c.from.heads; ++h) {
        std::copy_n(c.from.at(b, t, h), c.from.head_dim, c.to.at(b, t, h));
      }
    }
  }
}

}  // namespace headloom
