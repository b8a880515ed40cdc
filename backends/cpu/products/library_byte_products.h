// SPDX-License-Identifier: Apache-2.0
// oneDNN's products of bytes with weights in panels of byte_products(): where there is AMX they are faster than own
// loops for many rows. Blocks of the result are chunks of equal extents, but for the last ones.
#pragma once

#include <memory>

#include "cpu/device/library.h"
#include "cpu/products/quantized/quantized_weight.h"

namespace transom::cpu {

class LibraryByteProducts {
 public:
  // Null where this processor has no AMX, or the library has no fast loops for the panels.
  static std::shared_ptr<const LibraryByteProducts> make(const QuantizedShape& shape, int64_t x_row);

  int64_t row_step() const { return m_step_; }
  int64_t column_step() const { return n_step_; }
  // sums i32, with whole panels of columns from row to row, of a chunk that begins at this row and column.
  void multiply(const std::byte* x, const QuantizedWeight& weight, int64_t piece, int64_t row, int64_t column,
                int32_t* sums) const;

 private:
  struct Product {
    dnnl::memory::desc a, b, c, scratchpad;
    dnnl::matmul primitive;
  };

  LibraryByteProducts(const QuantizedShape& shape, int64_t x_row);
  Product make_product(int64_t rows, int64_t columns, int64_t depth);

  QuantizedShape shape_;
  int64_t x_row_, m_step_, n_step_;
  bool fast_ = true;
  Product products_[2][2][2];  // [last rows][last columns][last depth]
};

}  // namespace transom::cpu
