// SPDX-License-Identifier: Apache-2.0
// Positions that are no rotation: a bias of scores, and vectors beside those of tokens.
#pragma once

#include <optional>

#include "models/shared/blocks/decoder_plan.h"
#include "transom/layers.h"

namespace transom {

// ALiBi. What is left out, slope x place of the query, is the same for all keys of a row and so nothing to its softmax.
class PositionBias {
 public:
  explicit PositionBias(const AlibiPlan& plan);
  // [B or 1, H, 1, S] for S places of keys. Refuses masks other than [batch, length], by which places are counted.
  Tensor operator()(const DecoderInputs& in) const;

 private:
  AlibiPlan plan_;
  Tensor slopes_;  // f32 [1, H, 1, 1]
};

// Vectors of positions [B or 1, T] -> [B or 1, T, D].
class PositionVectors {
 public:
  PositionVectors(const Scope& scope, int64_t width, double deviation, const PositionTable& table);
  Tensor operator()(const Tensor& position_ids, const ForwardContext& context) const;

 private:
  Tensor waves(const Tensor& rows) const;
  int64_t width_;
  PositionTable table_;
  std::optional<Embedding> learned_;
};

}  // namespace transom
