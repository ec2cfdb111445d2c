#pragma once

#include "ops/check.h"

namespace headloom {

/// Looks tokens up: y[b*T+t] = tokens_table[ids[b*T+t]] + positions_table[first_position + t].
///
/// Shapes: ids int32 [B*T], row-major by sequence; token_table [>= V,C]; position_table [>= T,C] or
/// empty (rotary models); y [B*T,C].
/// Units: 0 <= ids < token_table.rows; first_position + T <= position_table.rows.
/// Writes: y (=).
template <class T>
struct EmbedForward {
  const std::int32_t* ids = nullptr;
  std::int64_t seq = 0;
  std::int64_t first_position = 0;
  Matrix<const T> token_table;
  Matrix<const T> position_table;
  Matrix<T> y;
};

/// Gradient of EmbedForward at first_position 0.
/// Shapes: dy [B*T,C]; dtoken_table, dposition_table as the tables. Writes: both tables (+=).
/// Determinism: rows are added in the order of the batch whatever the number of threads.
template <class T>
struct EmbedBackward {
  const std::int32_t* ids = nullptr;
  std::int64_t seq = 0;
  Matrix<const T> dy;
  Matrix<T> dtoken_table;
  Matrix<T> dposition_table;
};

/// Ids in memory of the CPU. Errors: kFailed with the first that names no token.
inline void check_ids(const char* op, const std::int32_t* ids, std::int64_t count,
                      std::int64_t vocab) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= vocab) {
      fail("{}: token id {} at place {} is outside the vocabulary of {}", op, ids[i], i, vocab);
    }
  }
}

namespace embed_detail {

template <class A, class Table>
void check_rows(const char* op, const A& a, std::int64_t rows, std::int64_t first,
                const Matrix<Table>& positions) {
  check_present(op, "ids", a.ids);
  if (a.seq < 1 || rows % a.seq != 0)
    fail("{}: {} rows are no multiple of seq {}", op, rows, a.seq);
  if (positions && first + a.seq > positions.rows) {
    fail("{}: positions up to {} but the table has {}", op, first + a.seq, positions.rows);
  }
}

}  // namespace embed_detail

template <class T>
void check(const EmbedForward<T>& e) {
  const char* op = "embed_forward";
  check_matrix(op, "token_table", e.token_table, e.token_table.rows, e.y.cols);
  if (e.position_table) {
    check_matrix(op, "position_table", e.position_table, e.position_table.rows, e.y.cols);
  }
  embed_detail::check_rows(op, e, e.y.rows, e.first_position, e.position_table);
}

template <class T>
void check(const EmbedBackward<T>& e) {
  const char* op = "embed_backward";
  check_matrix(op, "dtoken_table", e.dtoken_table, e.dtoken_table.rows, e.dy.cols);
  if (e.dposition_table) {
    check_matrix(op, "dposition_table", e.dposition_table, e.dposition_table.rows, e.dy.cols);
  }
  embed_detail::check_rows(op, e, e.dy.rows, 0, e.dposition_table);
}

}  // namespace headloom
