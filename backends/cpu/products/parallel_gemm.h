// SPDX-License-Identifier: Apache-2.0
// Products of f32 or bf16 matrices by the library, cut into chunks for the threads; with b as it is, or packed.
#pragma once

#include <memory>
#include <mutex>

#include "cpu/device/device.h"
#include "cpu/products/matrix_product.h"
#include "cpu/products/product_plan.h"

namespace transom::cpu {

// How m and n are cut. The last chunk of each may be smaller.
struct Grid {
  int64_t m_step, n_step, m_chunks, n_chunks;
};

class CutProduct {
 public:
  // `frozen`: b does not change, and is read in the order in which its packed form would be.
  CutProduct(const ProductPlan& plan, transom_dtype input, transom_dtype output, bool frozen, bool packed = false);

  // b: the matrix, or its packed form.
  void run(const std::byte* a, const std::byte* b, const std::byte* bias, std::byte* c) const;
  // Of the packed form.
  const dnnl::memory::desc& layout() const { return layout_; }

 private:
  void lay_out();
  bool is_stretch(const dnnl::memory::desc& chunk) const;
  MatrixShape shape(bool last_m, bool last_n) const;
  // Whether a chunk's results are made with nothing between their rows.
  bool apart() const { return frozen_ && grid_.n_chunks > 1; }
  const std::byte* columns_from(const std::byte* b, int64_t batch, int64_t column) const;

  ProductPlan plan_;
  transom_dtype input_, output_;
  bool frozen_, packed_;
  Grid grid_;
  dnnl::memory::desc layout_;
  std::shared_ptr<const MatrixProduct> primitives_[2][2];  // [last of m][last of n]
};

// A product with a frozen b that is packed once for its buffer: products of all numbers of rows share it.
class PackedProduct {
 public:
  // `stored`: the type that the weight has in its buffer.
  PackedProduct(const ProductPlan& plan, transom_dtype input, transom_dtype output, transom_dtype stored)
      : plan_(plan), input_(input), output_(output), stored_(stored) {}

  // The packed form of b. `waits`: null at the first use of the buffer, since packing what is used once costs more than
  // it saves.
  std::shared_ptr<PackedWeight> weight(transom_buffer& buffer, size_t offset, const std::byte* b, bool waits) const;
  void run(const std::byte* a, const PackedWeight& weight, const std::byte* bias, std::byte* c) const;

 private:
  // Made when it is first needed, which a weight that is used once never is.
  const CutProduct& product() const;
  // Whether own loops take the place of the library.
  bool few_rows() const;
  std::shared_ptr<PackedWeight> pack(const std::byte* b) const;

  ProductPlan plan_;
  transom_dtype input_, output_, stored_;
  mutable std::once_flag once_;
  mutable std::unique_ptr<const CutProduct> product_;
};

}  // namespace transom::cpu
