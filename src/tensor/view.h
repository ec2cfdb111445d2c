#pragma once

#include <cstdint>
#include <type_traits>

/// Non-owning views of numbers in memory. T may be const; a view of T converts to one of const T.
namespace headloom {

/// rows x cols; a row is contiguous, rows lie `stride` elements apart (stride >= cols).
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  Matrix() = default;
  Matrix(T* data, std::int64_t rows, std::int64_t cols) : Matrix(data, rows, cols, cols) {}
  Matrix(T* data, std::int64_t rows, std::int64_t cols, std::int64_t stride)
      : data(data), rows(rows), cols(cols), stride(stride) {}
  template <class U>
  requires std::is_same_v<const U, T> Matrix(
      const Matrix<U>& other)  // NOLINT: a view of T is a view of const T
      : Matrix(other.data, other.rows, other.cols, other.stride) {}

  explicit operator bool() const { return data != nullptr; }
  T* row(std::int64_t i) const { return data + i * stride; }
  T& operator()(std::int64_t i, std::int64_t j) const { return data[i * stride + j]; }
  Matrix row_range(std::int64_t begin, std::int64_t count) const {
    return {row(begin), count, cols, stride};
  }
  Matrix col_range(std::int64_t begin, std::int64_t count) const {
    return {data + begin, rows, count, stride};
  }
};

/// [batch, seq, heads, head_dim] as strides on one tensor: element (b, t, h, d) stands at
/// b * batch_stride + t * seq_stride + h * head_stride + d. This view is the split into heads;
/// heads that lie side by side have a head_stride of head_dim.
template <class T>
struct Heads {
  T* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t batch_stride = 0;
  std::int64_t seq_stride = 0;
  std::int64_t head_stride = 0;

  Heads() = default;
  Heads(T* data, std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t head_dim,
        std::int64_t batch_stride, std::int64_t seq_stride)
      : Heads(data, batch, seq, heads, head_dim, batch_stride, seq_stride, head_dim) {}
  Heads(T* data, std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t head_dim,
        std::int64_t batch_stride, std::int64_t seq_stride, std::int64_t head_stride)
      : data(data),
        batch(batch),
        seq(seq),
        heads(heads),
        head_dim(head_dim),
        batch_stride(batch_stride),
        seq_stride(seq_stride),
        head_stride(head_stride) {}
  template <class U>
  requires std::is_same_v<const U, T> Heads(
      const Heads<U>& other)  // NOLINT: a view of T is a view of const T
      : Heads(other.data, other.batch, other.seq, other.heads, other.head_dim, other.batch_stride,
              other.seq_stride, other.head_stride) {}

  /// The HS numbers of one head at one position.
  T* at(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return data + b * batch_stride + t * seq_stride + h * head_stride;
  }
};

}  // namespace headloom
