// SPDX-License-Identifier: Apache-2.0
// Vectors of tokens that each block has for itself (LayerInputsPlan). B batch, T time, D hidden, L blocks, P numbers.
#pragma once

#include "models/shared/blocks/norm_layer.h"

namespace transom {

// Those of all blocks: input_ids [B, T] and x [B, T, D], what the first block reads -> [B, T, L, P]. Without ids it is
// an error: a row does not say its token.
class LayerVectors {
 public:
  LayerVectors(const Scope& scope, const DecoderPlan& plan, const LayerInputsPlan& inputs);
  Tensor operator()(const Tensor& input_ids, const Tensor& x, ForwardContext& context) const;

 private:
  int64_t width_, layers_;
  double hidden_;
  Embedding table_;
  Linear projection_;
  PlannedNorm norm_;
};

// What a block does with its own: x [B, T, D] and all of them -> x and what they add, [B, T, D].
class LayerVectorOfBlock {
 public:
  LayerVectorOfBlock(const Scope& scope, const DecoderPlan& plan, const LayerInputsPlan& inputs, int64_t block);
  Tensor operator()(const Tensor& x, const Tensor& all, ForwardContext& context) const;

 private:
  int64_t block_;
  std::string activation_;
  Linear gate_, outward_;
  PlannedNorm norm_;
};

}  // namespace transom
