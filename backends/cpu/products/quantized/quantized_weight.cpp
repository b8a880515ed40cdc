// SPDX-License-Identifier: Apache-2.0
#include "cpu/products/quantized/quantized_weight.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/device/threads.h"
#include "cpu/kernels/widening.h"
#include "cpu/vector/products/byte_products.h"

namespace transom::cpu {
namespace {

constexpr int64_t kColumnsOfTask = 64;  // whole panels of every width

}  // namespace

QuantizedShape::QuantizedShape(const Node& node) {
  const Type &in = node.input(0), &weight = node.input(1);
  integers = weight.dtype == TRANSOM_INT8;
  zero_point = integers ? node.integer("zero_point") + (in.dtype == TRANSOM_INT8 ? 128 : 0) : 128;
  transposed = !integers && node.integer("transposed") != 0;
  if (in.rank() == 0 || weight.rank() != 2 || in.shape.back() != weight.shape[transposed ? 0 : 1])
    fail(TRANSOM_INVALID_ARGUMENT, "expected x [..., K] and a weight of depth K, found {} and {}", to_string(in),
         to_string(weight));
  x = in.dtype, w = weight.dtype, y = node.output().dtype;
  k = in.shape.back();
  m = product(in.shape, 0, in.rank() - 1);
  n = weight.shape[transposed ? 1 : 0];
  bias = node.input_count() > 2;
}

QuantizedWeight::QuantizedWeight(const QuantizedShape& shape, const std::byte* values) : shape_(shape) {
  const ByteProducts& products = byte_products();
  const auto width = static_cast<int64_t>(products.width);
  columns_ = (shape.n + width - 1) / width * width;
  std::vector<float> wide;
  const auto* floats = reinterpret_cast<const float*>(values);
  if (!shape.integers && shape.w != TRANSOM_FLOAT32) {
    wide.resize(static_cast<size_t>(shape.n * shape.k));
    widen(shape.w, values, wide.data(), shape.n * shape.k);
    floats = wide.data();
  }
  scales_.resize(static_cast<size_t>(columns_), 1.0f);
  surplus_.resize(static_cast<size_t>(columns_ * std::max<int64_t>(shape.pieces(), 1)));
  for (int64_t piece = 0; piece < shape.pieces(); ++piece)
    pieces_.push_back(allocate_packed(static_cast<size_t>(columns_ * padded(piece))));
  parallel_for(static_cast<size_t>((shape.n + kColumnsOfTask - 1) / kColumnsOfTask), [&](size_t task) {
    const int64_t first = static_cast<int64_t>(task) * kColumnsOfTask,
                  count = std::min(kColumnsOfTask, shape.n - first);
    std::vector<int8_t> rounded;
    const auto* codes = reinterpret_cast<const int8_t*>(values) + first * shape.k;  // [count, k]
    if (!shape.integers) {
      rounded.resize(static_cast<size_t>(count * shape.k));
      round_columns(floats, first, count, rounded.data());
      codes = rounded.data();
    }
    for (int64_t piece = 0; piece < shape.pieces(); ++piece) {
      const int8_t* from = codes + piece * QuantizedShape::kPiece;
      const int64_t depth = shape.piece_depth(piece);
      products.pack(reinterpret_cast<int8_t*>(pieces_[static_cast<size_t>(piece)].get()) + first * padded(piece),
                    static_cast<size_t>(depth), static_cast<size_t>(padded(piece)), static_cast<size_t>(count),
                    [&](size_t at, size_t column) { return from[column * static_cast<size_t>(shape.k) + at]; });
      int32_t* surplus = surplus_.data() + piece * columns_ + first;
      for (int64_t i = 0; i < count; ++i)
        for (int64_t at = 0; at < depth; ++at)
          surplus[i] += static_cast<int32_t>(shape.zero_point) * from[i * shape.k + at];
    }
  });
}

size_t QuantizedWeight::panel_step(int64_t piece) const {
  return byte_products().width * static_cast<size_t>(padded(piece));
}

// To rounded [count, k]; their scales are kept.
void QuantizedWeight::round_columns(const float* values, int64_t first, int64_t count, int8_t* rounded) {
  const int64_t stride = shape_.transposed ? shape_.n : 1;
  for (int64_t i = 0; i < count; ++i) {
    const float* row = values + (first + i) * (shape_.transposed ? 1 : shape_.k);
    float largest = 0;
    bool finite = true;
    for (int64_t place = 0; place < shape_.k; ++place) {
      const float size = std::fabs(row[place * stride]);
      finite = finite && std::isfinite(size);
      largest = std::max(largest, size);
    }
    // A row with an infinity or a NaN gives NaN, as in the float64 reference.
    const float scale = finite ? largest * (1.0f / 127.0f) : std::numeric_limits<float>::quiet_NaN();
    const float divisor = scale > 0 ? scale : 1.0f;
    for (int64_t place = 0; place < shape_.k; ++place)
      rounded[i * shape_.k + place] =
          finite ? static_cast<int8_t>(std::nearbyintf(row[place * stride] / divisor)) : int8_t{0};
    scales_[static_cast<size_t>(first + i)] = scale;
  }
}

}  // namespace transom::cpu
