#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "tensor/view.h"

/// Shape checks, made once at the entry of an op. The message names the op, the tensor, the shape
/// wanted and the shape given.
namespace headloom {

template <class T>
void check_matrix(const char* op, const char* tensor, const Matrix<T>& given, std::int64_t rows,
                  std::int64_t cols) {
  if (given.data == nullptr && rows * cols != 0) fail("{}: {} is missing", op, tensor);
  if (given.rows != rows || given.cols != cols || given.stride < given.cols) {
    fail("{}: {} has shape [{}, {}] and row stride {}, wanted [{}, {}]", op, tensor, given.rows,
         given.cols, given.stride, rows, cols);
  }
}

/// Rows of head_dim numbers that do not overlap: heads within a position, or positions within a
/// head.
template <class T>
bool are_apart(const Heads<T>& h) {
  return h.head_stride >= h.head_dim && h.seq_stride >= h.head_dim &&
         (h.seq_stride >= (h.heads - 1) * h.head_stride + h.head_dim ||
          h.head_stride >= (h.seq - 1) * h.seq_stride + h.head_dim);
}

template <class T>
void check_heads(const char* op, const char* tensor, const Heads<T>& given, std::int64_t batch,
                 std::int64_t seq, std::int64_t heads, std::int64_t head_dim) {
  if (given.data == nullptr && batch * seq * heads * head_dim != 0) {
    fail("{}: {} is missing", op, tensor);
  }
  if (given.batch != batch || given.seq != seq || given.heads != heads ||
      given.head_dim != head_dim || !are_apart(given)) {
    fail(
        "{}: {} has shape [{}, {}, {}, {}], position stride {} and head stride {}, wanted [{}, {}, "
        "{}, {}]",
        op, tensor, given.batch, given.seq, given.heads, given.head_dim, given.seq_stride,
        given.head_stride, batch, seq, heads, head_dim);
  }
}

inline void check_present(const char* op, const char* tensor, const void* data) {
  if (data == nullptr) fail("{}: {} is missing", op, tensor);
}

inline void check_equal(const char* op, const char* what, std::int64_t given, std::int64_t wanted) {
  if (given != wanted) fail("{}: {} is {}, wanted {}", op, what, given, wanted);
}

}  // namespace headloom
