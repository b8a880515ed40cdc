// SPDX-License-Identifier: Apache-2.0
#include "models/shared/blocks/position_bias.h"

#include <bit>
#include <cmath>

#include "base/error.h"

namespace transom {
namespace {

// Slope i of n heads is 2^(-largest i / n). Of a number of heads that is no power of two: those of the power below it,
// then every second one of the power above it.
std::vector<float> slopes_of(const AlibiPlan& plan) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(plan.heads)));
  const auto slope = [&](int64_t number, int64_t of) {
    return static_cast<float>(std::pow(2.0, -plan.largest * static_cast<double>(number) / static_cast<double>(of)));
  };
  std::vector<float> slopes;
  for (int64_t i = 1; i <= power; ++i) slopes.push_back(slope(i, power));
  for (int64_t i = 1; static_cast<int64_t>(slopes.size()) < plan.heads; i += 2) slopes.push_back(slope(i, 2 * power));
  return slopes;
}

}  // namespace

PositionBias::PositionBias(const AlibiPlan& plan)
    : plan_(plan), slopes_(Tensor::from(slopes_of(plan), {1, plan.heads, 1, 1})) {}

Tensor PositionBias::operator()(const DecoderInputs& in) const {
  if (!in.causal || (in.attention_mask.defined() && in.attention_mask.rank() != 2))
    fail("attention_mask: expected [batch, length]; this model counts distances by it");
  Tensor places;  // of keys
  if (!in.attention_mask.defined()) {
    places = iota({1, 1, 1, in.length}, 3);
  } else if (!plan_.by_mask) {
    places = iota({1, 1, 1, in.attention_mask.dim(1)}, 3);
  } else {
    const Tensor counted = cast(in.attention_mask, DType::kInt64);
    places = reshape((cumulative_sum(counted, 1) - 1.0) * counted, {counted.dim(0), 1, 1, counted.dim(1)});
  }
  // The product of two bfloat16 is exact in f32, which every runtime multiplies.
  const auto rounded = [](const Tensor& x) { return cast(cast(x, DType::kBFloat16), DType::kFloat32); };
  const Tensor counts = cast(places, DType::kFloat32);
  const Tensor bias = plan_.rounded ? rounded(rounded(slopes_) * rounded(counts)) : slopes_ * counts;
  return plan_.scale == 1 ? bias : bias * plan_.scale;
}

PositionVectors::PositionVectors(const Scope& scope, int64_t width, double deviation, const PositionTable& table)
    : width_(width), table_(table) {
  if (!table.module.empty()) learned_.emplace(scope / table.module, table.rows + table.offset, width, deviation);
}

Tensor PositionVectors::operator()(const Tensor& position_ids, const ForwardContext& context) const {
  const Tensor rows = table_.offset == 0 ? position_ids : position_ids + static_cast<double>(table_.offset);
  return learned_ ? (*learned_)(rows, context) : waves(rows);
}

// Sines, then cosines, of frequencies from 1 down to 1 / 10000; a last 0 where the width is odd.
Tensor PositionVectors::waves(const Tensor& rows) const {
  const int64_t half = width_ / 2;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < half; ++i)
    frequencies.push_back(
        std::exp(static_cast<float>(i) *
                 static_cast<float>(-std::log(10000.0) / std::max<double>(1, static_cast<double>(half - 1)))));
  const Tensor angles = reshape(cast(rows, DType::kFloat32), {rows.dim(0), rows.dim(1), 1}) *
                        reshape(Tensor::from(frequencies, {half}), {1, 1, half});
  std::vector<Tensor> parts{sin(angles), cos(angles)};
  if (width_ % 2 != 0) parts.push_back(full({rows.dim(0), rows.dim(1), 1}, 0));
  const Tensor vectors = concatenate(parts, 2);
  if (!table_.zero_row) return vectors;
  const Tensor hidden =
      unsqueeze(equal(rows, full(rows.shape(), static_cast<double>(*table_.zero_row), rows.dtype())), 2);
  return select(broadcast_to(hidden, vectors.shape()), full(vectors.shape(), 0), vectors);
}

}  // namespace transom
