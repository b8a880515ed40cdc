// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/shared/blocks/decoder_plan.h"
#include "transom/layers.h"

namespace transom {

// A norm of one of the kinds of NormPlan over the last axis: [..., width] -> [..., width].
class PlannedNorm {
 public:
  PlannedNorm(const Scope& scope, int64_t width, const NormPlan& plan);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  Tensor scale(const Tensor& x) const;
  std::string path_;
  NormPlan plan_;
  int64_t width_;
  std::optional<LayerNorm> layer_norm_;
  std::optional<RmsNorm> rms_norm_;
  std::shared_ptr<Parameter> weight_, bias_;  // of what neither of them does
};

// Norms of queries or keys, before or after they are cut into heads.
class HeadNorm {
 public:
  HeadNorm(const Scope& scope, const std::string& module, int64_t heads, int64_t head_size, const HeadNormsPlan& plan);
  // [B, T, H d] where the norm is over all heads, else [B, T, H, d]; -> the same.
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  std::string path_;
  HeadNormsPlan plan_;
  std::optional<PlannedNorm> whole_, plain_;
  std::vector<std::shared_ptr<Parameter>> weights_;  // one [H, d], or H of [d]
};

}  // namespace transom
