// SPDX-License-Identifier: Apache-2.0
// The right side of a product in the layout of row_products: panels of some columns, each with all its depth, so that a
// product reads one stream of memory.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/device/memory.h"
#include "cpu/products/product_parts.h"
#include "cpu/products/product_plan.h"
#include "cpu/vector/products/row_products.h"

namespace transom::cpu {

struct PackedPanels : PackedWeight {
  PackedMemory numbers;
  RowStorage storage = kStoredF32;
};

RowStorage storage_of(transom_dtype dtype);

// Of a matrix b [k, n] of f32 or 16 bits. All but the last panel have `width` columns; that one has whole registers.
class RowPanels {
 public:
  // `stored`: the type that b is packed from, where it is not the plan's.
  RowPanels(const ProductPlan& plan, transom_dtype stored);

  int64_t count() const { return count_; }
  int64_t width() const { return width_; }
  int64_t lanes() const { return lanes_; }  // columns of a register
  // Columns of the panels [begin, end), in whole registers.
  int64_t columns(int64_t begin, int64_t end) const {
    return std::min(end * width_, (n_ + lanes_ - 1) / lanes_ * lanes_) - begin * width_;
  }
  size_t bytes(int64_t panel) const {
    return static_cast<size_t>(columns(panel, panel + 1) * k_) * element_size(dtype_);
  }
  // One that is kept with a buffer.
  std::vector<int64_t> key() const { return {-2, k_, n_, row_, column_, dtype_, stored_}; }

  // Does work(panel) for all panels in parallel.
  template <typename Work>
  void for_each(Work&& work) const {
    for_panels(count_, k_ * width_, work);
  }

  // One panel of b, in the plan's type.
  void pack(const std::byte* b, int64_t panel, std::byte* to) const;
  // All of them, in the smallest type that holds them.
  std::shared_ptr<PackedPanels> pack(const std::byte* b) const;

 private:
  template <typename T>
  void pack_panel(const T* b, int64_t panel, T* to) const;
  template <typename T>
  void pack_all(const T* b, T* to) const;
  bool pack_upper_halves(const float* b, uint16_t* to) const;
  size_t all_bytes(size_t number) const { return static_cast<size_t>(columns(0, count_) * k_) * number; }

  int64_t n_, k_, row_, column_, size_, lanes_, width_, count_;  // size_: numbers of b
  transom_dtype dtype_, stored_;
};

}  // namespace transom::cpu
