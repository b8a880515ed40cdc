// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "models/nn/attention/cache.h"
#include "models/shared/blocks/norm_layer.h"

namespace transom {

// What a pass gives to each layer of attention.
struct AttentionInputs {
  const DecoderInputs& in;
  Tensor bias;                       // in.bias, and what positions add
  std::vector<RotaryAngles> angles;  // one for each of the plan's
  bool both_sides = false;           // windows are of keys before a query and behind it, less than so far from it
  Tensor beside = {};                // [B, T, blocks, width] of the plan's layer_inputs; empty: none
  // Of each block the keys and values of the tokens of this pass, where others read them; null: none does.
  std::vector<KeysAndValues>* kept = nullptr;
  // Where some tokens see those behind them too (sees_together.h): what is added to scores, which says all, by the
  // window of a layer. Empty: no token does.
  std::map<int64_t, Tensor> together = {};
};

// Heads x [B, T, H, d] whose numbers turn in pairs side by side, with the numbers of `pairs` pairs apart: those at even
// places of what turns, then those at odd ones. Queries and keys alike, so that their products are the same.
Tensor turning_apart(const Tensor& x, int64_t pairs);

// The self-attention of a block's AttentionPlan, x [B, T, D] -> [B, T, D]. `number` is that of the layer in the cache,
// `block` that of the block. A layer that reads the keys of another has a place of its own in the cache all the same.
class PlannedAttention {
 public:
  PlannedAttention(const Scope& scope, const DecoderPlan& plan, const AttentionPlan& attention, int64_t number,
                   size_t block);
  Tensor operator()(const Tensor& x, const AttentionInputs& inputs, ForwardContext& context) const;

 private:
  struct Projected {
    Tensor q, k, v;  // [B, T, H, d], [B, T, G, d], [B, T, G, d]
    Tensor gate;     // [B, T, H, d]; empty: none
  };
  // With norms and positions.
  Projected placed(const Tensor& x, const AttentionInputs& inputs, ForwardContext& context) const;
  Projected project(const Tensor& x, ForwardContext& context) const;
  Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionInputs& inputs,
                  ForwardContext& context) const;
  Projected parted(const Tensor& joint) const;
  Tensor clipped(const Tensor& x) const;
  Tensor grown(const Tensor& q, const Tensor& position_ids) const;
  bool norms_all_heads() const;

  int64_t number_;
  size_t block_;
  AttentionPlan plan_;
  bool interleaved_ = false;
  AttentionOptions options_;
  std::shared_ptr<Parameter> sinks_;  // null: none
  std::optional<Linear> fused_, query_, key_, value_, output_;
  std::optional<HeadNorm> query_norm_, key_norm_;
  std::optional<PlannedNorm> value_norm_;
  Dropout dropout_;
};

}  // namespace transom
