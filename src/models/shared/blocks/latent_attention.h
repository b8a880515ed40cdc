// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "models/shared/blocks/attention_layer.h"

namespace transom {

// Attention whose keys and values are made of latent vectors (LatentPlan), x [B, T, D] -> [B, T, D]. Without a cache
// they are written out for all heads. With one, what makes keys and values of the latent vector is taken into queries
// and results instead ("absorbed"), so that the cache holds one head, a key of rank + turning numbers and a value of
// rank.
class LatentAttention {
 public:
  LatentAttention(const Scope& scope, const DecoderPlan& plan, const AttentionPlan& attention, int64_t number);
  Tensor operator()(const Tensor& x, const AttentionInputs& inputs, ForwardContext& context) const;

 private:
  struct Parts {
    Tensor q_plain, q_turned;  // [B, T, H, plain], [B, T, H, turning]
    Tensor latent, k_turned;   // [B, T, rank], [B, T, 1, turning]
  };
  Parts parts_of(const Tensor& x, const AttentionInputs& inputs, ForwardContext& context) const;
  bool absorbs(const ForwardContext& context) const;
  Tensor written_out(const Parts& parts, const AttentionInputs& inputs, ForwardContext& context) const;
  Tensor absorbed(const Parts& parts, const AttentionInputs& inputs, ForwardContext& context) const;
  Tensor outer(const Tensor& latent, ForwardContext& context) const;
  Tensor outer_weight(ForwardContext& context) const;
  AttentionOptions options_for(const AttentionInputs& inputs) const;

  int64_t number_;
  AttentionPlan plan_;
  bool interleaved_ = false;
  std::optional<Linear> query_, query_inner_, query_outer_;
  std::optional<PlannedNorm> query_norm_;
  Linear inner_;
  PlannedNorm norm_;
  std::string outer_path_;
  std::shared_ptr<Parameter> outer_;
  Linear output_;
  Dropout dropout_;
};

}  // namespace transom
