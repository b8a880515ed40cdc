// SPDX-License-Identifier: Apache-2.0
// What quantized_linear and integer_linear multiply: their extents, and a weight rounded to i8 and packed.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/device/memory.h"
#include "cpu/kernels/kernel.h"

namespace transom::cpu {

struct QuantizedShape {
  int64_t m, n, k;
  transom_dtype x, w, y;
  bool transposed, bias;
  bool integers;       // of integer_linear: x is u8 or i8, w its codes, and all scales are 1
  int64_t zero_point;  // what the rows count from, as u8

  // Refuses extents that do not belong together.
  explicit QuantizedShape(const Node& node);

  // Depth is cut into pieces, since 32 bits do not hold the sums of more.
  static constexpr int64_t kPiece = 1 << 16;  // 255 times 127 so often stays below 2^31
  int64_t pieces() const { return (k + kPiece - 1) / kPiece; }
  int64_t piece_depth(int64_t piece) const { return std::min(kPiece, k - piece * kPiece); }
};

// In panels of byte_products() whose depth is filled up to whole units, one piece of depth behind the other: a layout
// that own loops and the library read.
class QuantizedWeight : public PackedWeight {
 public:
  // Rounds and packs.
  QuantizedWeight(const QuantizedShape& shape, const std::byte* values);

  const int8_t* panels(int64_t piece, int64_t column) const {
    return reinterpret_cast<const int8_t*>(pieces_[static_cast<size_t>(piece)].get()) + column * padded(piece);
  }
  // Bytes from panel to panel.
  size_t panel_step(int64_t piece) const;
  const float* scales() const { return scales_.data(); }  // [n, filled up to whole panels]
  // Of each column: what the products of a piece have too much.
  const int32_t* surplus(int64_t piece) const { return surplus_.data() + piece * columns_; }

 private:
  static constexpr int64_t kDepthUnit = 64;
  int64_t padded(int64_t piece) const { return (shape_.piece_depth(piece) + kDepthUnit - 1) / kDepthUnit * kDepthUnit; }
  void round_columns(const float* values, int64_t first, int64_t count, int8_t* rounded);

  QuantizedShape shape_;
  int64_t columns_;  // n in whole panels
  std::vector<PackedMemory> pieces_;
  std::vector<float> scales_;
  std::vector<int32_t> surplus_;
};

}  // namespace transom::cpu
