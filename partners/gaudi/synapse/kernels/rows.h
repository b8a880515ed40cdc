// SPDX-License-Identifier: Apache-2.0
// Loops over some dims of a tensor for each place in the others.
#pragma once

#include "kernel.h"
#include "kernels/movement/movement.h"
#include "numbers.h"

namespace synapse_emulator {

class Reduction {
 public:
  // `mask`: one bit for each dim that is looped over.
  Reduction(const Sizes& sizes, uint32_t mask) {
    const auto stride = strides_of(sizes);
    for (int dim = 0; dim < sizes.rank; ++dim) {
      Sizes& list = mask >> dim & 1 ? inner_ : outer_;
      auto& strides = mask >> dim & 1 ? inner_stride_ : outer_stride_;
      strides[static_cast<size_t>(list.rank)] = stride[static_cast<size_t>(dim)];
      list.size[static_cast<size_t>(list.rank++)] = sizes[dim];
    }
  }
  int64_t outputs() const { return outer_.elements(); }
  int64_t count() const { return inner_.elements(); }

  // Where output `index` begins, in elements.
  int64_t begin(int64_t index) const { return place(index, outer_, outer_stride_); }
  // Where element `index` of the loop lies after the beginning.
  int64_t offset(int64_t index) const { return place(index, inner_, inner_stride_); }

  template <typename Value>
  void gather(const Operand& in, int64_t output, Value* values) const {
    const int64_t from = begin(output), width = inner_[0], step = inner_.rank > 0 ? inner_stride_[0] : 1;
    const int64_t rows = width == 0 ? 0 : count() / width;
    for (int64_t row = 0; row < rows; ++row)
      load<Value>(in.type, in.data, from + offset(row * width), step, width, values + row * width);
  }
  template <typename Value>
  void scatter(const Operand& out, int64_t output, const Value* values) const {
    const int64_t from = begin(output), width = inner_[0], step = inner_.rank > 0 ? inner_stride_[0] : 1;
    const int64_t rows = width == 0 ? 0 : count() / width;
    for (int64_t row = 0; row < rows; ++row)
      store<Value>(out.type, out.data, from + offset(row * width), step, width, values + row * width);
  }

 private:
  static int64_t place(int64_t index, const Sizes& sizes, const std::array<int64_t, kMostDims>& stride) {
    int64_t result = 0;
    for (int dim = 0; dim < sizes.rank; ++dim) {
      result += index % sizes[dim] * stride[static_cast<size_t>(dim)];
      index /= sizes[dim];
    }
    return result;
  }
  Sizes inner_, outer_;
  std::array<int64_t, kMostDims> inner_stride_{}, outer_stride_{};
};

}  // namespace synapse_emulator
