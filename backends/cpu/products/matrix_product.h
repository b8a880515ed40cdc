// SPDX-License-Identifier: Apache-2.0
// One product of two matrices by the library: c [m, n] = a [m, k] b [k, n] (+ bias [n]), in the calling thread.
#pragma once

#include <memory>

#include "cpu/device/library.h"
#include "cpu/device/memory.h"

namespace transom::cpu {

// Strides are in elements; one of the two of a matrix is 1. All of c's columns are contiguous.
struct MatrixShape {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column, c_row;
  transom_dtype input, output;
  bool bias;
  bool packed;  // b is in the layout that packed_desc() tells, not in strides
};

class MatrixProduct {
 public:
  // Shared by all of the process; those of the shapes that were asked for last are kept.
  static std::shared_ptr<const MatrixProduct> find(const MatrixShape& shape);

  void run(const void* a, const void* b, const void* bias, void* c) const;
  const dnnl::memory::desc& b_desc() const { return b_; }

  explicit MatrixProduct(const MatrixShape& shape);

 private:
  dnnl::memory::desc a_, b_, bias_, c_, scratchpad_;
  dnnl::matmul primitive_;
};

}  // namespace transom::cpu
