// SPDX-License-Identifier: Apache-2.0
// Strided copies: what permute, slice, broadcast, reverse, pad and concatenate come down to.
#pragma once

#include <cstddef>

#include "cpu/kernels/movement/views.h"

namespace transom::cpu {

// A copy prepared for its shape: runs of contiguous elements where there are any, else blocks that are transposed.
class StridedCopy {
 public:
  // Strides and offsets in elements of `element` bytes (1, 2, 4 or 8).
  StridedCopy(const Shape& shape, const Shape& to_strides, int64_t to_offset, const Shape& from_strides,
              int64_t from_offset, size_t element);
  void run(std::byte* to, const std::byte* from) const;
  const char* name() const;

 private:
  template <typename T>
  void run_as(T* to, const T* from) const;
  template <typename T>
  void run_rows(T* to, const T* from) const;
  template <typename T>
  void run_transposed(T* to, const T* from) const;

  LoopNest nest_;  // strides[0] of the target, strides[1] of the source
  int64_t to_offset_, from_offset_;
  size_t element_;
  size_t fast_axis_ = 0;  // along which the source is contiguous, if that is not the last
  bool transposed_ = false;
};

// Rows of `bytes` each; their beginnings lie `to_step` and `from_step` bytes apart.
void copy_rows(std::byte* to, size_t to_step, const std::byte* from, size_t from_step, int64_t rows, size_t bytes);

// Writes out a view of `from` densely.
void copy_view(std::byte* to, const std::byte* from, const View& view, size_t element);

}  // namespace transom::cpu
