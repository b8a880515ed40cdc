// SPDX-License-Identifier: Apache-2.0
// Codes of nf4 and fp4 for weights that a checkpoint holds as plain numbers.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/threads/threads.h"
#include "files/blocks/coded_matrix.h"
#include "models/loading/weights/packed_weights.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kBlock = 64;

uint8_t nearest_of(const std::vector<float>& values, float x) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i)
    if (std::fabs(values[i] - x) < std::fabs(values[best] - x)) best = i;
  return static_cast<uint8_t>(best);
}

}  // namespace

std::vector<float> four_bit_values(const std::string& type) {
  if (type == "nf4")
    return {-1.0f,
            -0.6961928009986877f,
            -0.5250730514526367f,
            -0.39491748809814453f,
            -0.28444138169288635f,
            -0.18477343022823334f,
            -0.09105003625154495f,
            0.0f,
            0.07958029955625534f,
            0.16093020141124725f,
            0.24611230194568634f,
            0.33791524171829224f,
            0.44070982933044434f,
            0.5626170039176941f,
            0.7229568362236023f,
            1.0f};
  if (type == "fp4")
    return {0.0f,  0.005208333333f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
            -0.0f, -0.005208333333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
  fail(ErrorKind::kUsage, "bnb_4bit_quant_type: expected nf4 or fp4, found {}", quoted(type));
}

PackedMatrix packed_in_blocks(const Tensor& weight, const std::vector<float>& values) {
  CodedMatrix matrix({.rows = weight.dim(0), .depth = weight.dim(1), .bits = 4, .group = kBlock, .values = values});
  const auto numbers = weight.to_vector<float>();
  const int64_t depth = matrix.layout().depth, groups = matrix.layout().groups();
  parallel_for(static_cast<size_t>(matrix.layout().rows), [&](size_t row) {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = static_cast<int64_t>(row) * depth + g * kBlock,
                    count = std::min(kBlock, depth - g * kBlock);
      float largest = 0;
      bool finite = true;
      for (int64_t i = first; i < first + count; ++i) {
        largest = std::max(largest, std::fabs(numbers[static_cast<size_t>(i)]));
        finite &= std::isfinite(numbers[static_cast<size_t>(i)]);
      }
      matrix.scales[row * static_cast<size_t>(groups) + static_cast<size_t>(g)] =
          finite ? largest : std::numeric_limits<float>::quiet_NaN();
      const float divisor = largest > 0 && finite ? largest : 1;
      for (int64_t i = first; i < first + count; ++i)
        matrix.codes[static_cast<size_t>(i)] = nearest_of(values, numbers[static_cast<size_t>(i)] / divisor);
    }
  });
  return *packed_matrix(matrix);
}

std::shared_ptr<const PackedMatrix> codes_of_weight(const Parameter& weight, OneOf<Quantization> quantization) {
  const bool by_row = quantization == Quantization::kInt8Channel;
  if (weight.use == Parameter::Use::kOther || weight.value.rank() != 2) return nullptr;
  if (!by_row &&
      (!is_in_block(weight.name) || (quantization != Quantization::kNf4 && quantization != Quantization::kFp4)))
    return nullptr;
  const Tensor rows = weight.use == Parameter::Use::kTransposedLinear ? permute(weight.value, {1, 0}) : weight.value;
  return std::make_shared<const PackedMatrix>(
      by_row ? packed_by_row(rows) : packed_in_blocks(rows, four_bit_values(std::string(quantization.name()))));
}

bool is_in_block(const std::string& name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (end > begin &&
        std::all_of(name.begin() + static_cast<std::ptrdiff_t>(begin), name.begin() + static_cast<std::ptrdiff_t>(end),
                    [](unsigned char c) { return std::isdigit(c); }))
      return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace transom
