// SPDX-License-Identifier: Apache-2.0
// Matrices whose codes a function gives, with scales and minima given one by one; and the numbers of scales.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "files/blocks/quantized_parts.h"

namespace transom {

// Codes, scales and minima given one by one: scales [rows or 1, groups or 1] are repeated over blocks of rows.
struct UnpackedScales {
  std::vector<float> scales, minima;  // [scale_rows, groups]
  int64_t scale_rows = 1, rows_of_scale = 1;
};

template <typename Codes>
class UnpackedMatrix : public BlockMatrix {
 public:
  UnpackedMatrix(BlockLayout layout, UnpackedScales unpacked, TensorView source, Codes codes)
      : BlockMatrix(std::move(layout)),
        scales_(std::move(unpacked)),
        source_(std::move(source)),
        codes_(std::move(codes)) {}
  void release() const override { release_mapped(source_.bytes); }
  void read_row(int64_t row, uint8_t* codes, float* scales, float* minima) const override {
    const BlockLayout& l = layout();
    for (int64_t k = 0; k < l.depth; ++k) codes[k] = codes_(row, l.order.empty() ? k : l.order[static_cast<size_t>(k)]);
    const int64_t from = row / scales_.rows_of_scale * l.groups();
    for (int64_t g = 0; g < l.groups(); ++g) {
      scales[g] = scales_.scales[static_cast<size_t>(from + g)];
      if (minima) minima[g] = scales_.minima[static_cast<size_t>(from + g)];
    }
  }

 private:
  UnpackedScales scales_;
  TensorView source_;
  Codes codes_;
};

template <typename Codes>
CompressedWeight unpacked_weight(BlockLayout layout, UnpackedScales unpacked, const TensorView& source, Codes codes) {
  return {std::make_shared<UnpackedMatrix<Codes>>(std::move(layout), std::move(unpacked), source, std::move(codes))};
}

// Of codes that are the bytes of a matrix as it is stored.
inline CompressedWeight unpacked_weight(BlockLayout layout, UnpackedScales unpacked, const TensorView& weight) {
  const int64_t depth = layout.depth;
  return unpacked_weight(std::move(layout), std::move(unpacked), weight, [weight, depth](int64_t row, int64_t k) {
    return static_cast<uint8_t>(weight.bytes[static_cast<size_t>(row * depth + k)]);
  });
}

// Scales of any type: floating-point ones, or powers of two by their exponents + 127 (E8M0, which is kept as u8).
inline std::vector<float> scale_numbers(const TensorView& view, const std::string& where) {
  if (view.dtype != DType::kUInt8) return floats_of(view, where);
  std::vector<float> scales;
  for (const std::byte byte : view.bytes) scales.push_back(std::ldexp(1.0f, static_cast<int>(byte) - 127));
  return scales;
}

}  // namespace transom
