#pragma once

#include "ops/check.h"

namespace headloom {

/// Keys that a head of some kind should look at, for each of B*T queries: row r has
/// keys[begin[r]] ... keys[begin[r + 1] - 1], positions in its own sequence at or before its own. A
/// row without any is not eligible.
struct KeySet {
  const std::int32_t* begin = nullptr;  ///< [B*T + 1]
  const std::int32_t* keys = nullptr;
};

/// What a head's attention looks like, whatever it looks at; each a sum over rows 1 ... T-1.
enum class HeadShape {
  kEntropy,            ///< over ln(i + 1): 1 is uniform
  kDistance,           ///< mean of i - j
  kConfidence,         ///< largest probability
  kSink,               ///< probability of position 0
  kEntropyBeyondSink,  ///< the same three with position 0 left out and the rest renormalised
  kDistanceBeyondSink,
  kConfidenceBeyondSink,
  kCount
};
inline constexpr std::int64_t kHeadShapes = static_cast<std::int64_t>(HeadShape::kCount);

/// Measures where every head looks, row by row, without keeping a row: what attend_forward left in
/// q, k and lse is all it reads, so that the pass itself is the same with and without it.
///
/// Sets and results lie in the host's memory. Shapes: q [B,T,NH,HS]; k [B,T,KVH,HS]; lse [B,NH,T];
/// sets [n_sets]; mass, hits [n_sets,B,NH]; shape [kHeadShapes,B,NH]. Writes: mass (=) sum over
/// eligible rows of the probability on the row's keys; hits (=) number of eligible rows whose
/// likeliest key is one of them; shape (=). Units: natural logarithms. Determinism: bitwise
/// repeatable.
template <class T>
struct AttendProbe {
  Heads<const T> q;
  Heads<const T> k;
  const T* lse = nullptr;
  const KeySet* sets = nullptr;
  std::int64_t n_sets = 0;
  T* mass = nullptr;
  T* hits = nullptr;
  T* shape = nullptr;
};

template <class T>
void check(const AttendProbe<T>& a) {
  const char* op = "attend_probe";
  check_heads(op, "q", a.q, a.q.batch, a.q.seq, a.q.heads, a.q.head_dim);
  check_heads(op, "k", a.k, a.q.batch, a.q.seq, a.k.heads, a.q.head_dim);
  if (a.k.heads < 1 || a.q.heads % a.k.heads != 0) {
    fail("{}: {} query heads cannot share {} key heads evenly", op, a.q.heads, a.k.heads);
  }
  check_present(op, "lse", a.lse);
  check_present(op, "shape", a.shape);
  if (a.n_sets > 0) {
    check_present(op, "sets", a.sets);
    check_present(op, "mass", a.mass);
    check_present(op, "hits", a.hits);
  }
}

}  // namespace headloom
