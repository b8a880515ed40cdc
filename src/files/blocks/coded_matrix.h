// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "files/blocks/block_matrix.h"

namespace transom {

// A matrix whose codes and scales are in memory: what methods that make quantised weights fill in. No minima, no
// values.
class CodedMatrix : public BlockMatrix {
 public:
  explicit CodedMatrix(BlockLayout layout)
      : BlockMatrix(std::move(layout)),
        codes(static_cast<size_t>(this->layout().rows * this->layout().depth)),
        scales(static_cast<size_t>(this->layout().rows * this->layout().groups())) {}

  void read_row(int64_t row, uint8_t* to_codes, float* to_scales, float* /*minima*/) const override {
    const BlockLayout& l = layout();
    std::copy_n(codes.data() + row * l.depth, l.depth, to_codes);
    std::copy_n(scales.data() + row * l.groups(), l.groups(), to_scales);
  }

  std::vector<uint8_t> codes;  // [rows, depth]
  std::vector<float> scales;   // [rows, groups]
};

}  // namespace transom
