// SPDX-License-Identifier: Apache-2.0
// What FastViT is made of, on maps [B, C, H, W]. Branches that are added while it learns can be fused into one
// convolution with a bias; a checkpoint has either form.
#pragma once

#include <optional>
#include <vector>

#include "models/families/timm_fastvit/fastvit_design.h"
#include "models/nn/layers.h"
#include "models/nn/vision/convolution.h"

namespace transom {

// A convolution without a bias, and a norm.
class FastVitConvNorm {
 public:
  FastVitConvNorm(const Scope& scope, int64_t in, int64_t out, int64_t window, int64_t stride, int64_t groups);
  Tensor operator()(const Tensor& x, ForwardContext& context) const { return bn_(conv_(x, context), context); }

 private:
  Convolution conv_;
  BatchNorm bn_;
};

// Channels weighed by what the mean of the map says of them (Hu et al., 2017).
class FastVitSqueeze {
 public:
  FastVitSqueeze(const Scope& scope, int64_t channels, int64_t inner);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  Convolution fc1_, fc2_;
};

// MobileOne's block (Vasu et al., 2022): a window, single pixels and the map as it is, each with a norm, in a sum.
class FastVitMobileOne {
 public:
  struct Options {
    int64_t window, stride = 1, groups = 1;
    bool fused = false, squeezes = false, acts = true;
    bool has_window = true, has_pixels = true;  // which branches there are
  };
  FastVitMobileOne(const Scope& scope, int64_t in, int64_t out, const Options& options);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  bool acts_;
  std::optional<Convolution> fused_;
  std::optional<BatchNorm> identity_;
  std::optional<FastVitConvNorm> window_, pixels_;
  std::optional<FastVitSqueeze> squeeze_;
};

// To fewer places and more channels: a large window and a small one, then single pixels.
class FastVitShrinking {
 public:
  FastVitShrinking(const Scope& scope, const FastVitDesign& d, const FastVitStageDesign& stage, int64_t in);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  bool acts_;
  std::optional<Convolution> fused_;
  std::optional<FastVitConvNorm> large_, small_;
  std::optional<FastVitSqueeze> squeeze_;
  FastVitMobileOne pixels_;
};

// One number a channel by which a branch is weighed.
class FastVitScale {
 public:
  FastVitScale(const Scope& scope, int64_t channels, const std::optional<double>& initial);
  Tensor operator()(const Tensor& x) const;

 private:
  std::shared_ptr<Parameter> gamma_;  // [C, 1, 1]; null: there is none
};

// Tokens are mixed by convolutions or by attention, then channels of each.
class FastVitBlock {
 public:
  FastVitBlock(const Scope& scope, const FastVitDesign& d, const FastVitStageDesign& stage, double drop_path);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  struct Mixer;      // of convolutions
  struct Attention;  // with its norm
  std::shared_ptr<const Mixer> mixer_;
  std::shared_ptr<const Attention> attention_;
  FastVitConvNorm conv_;
  Convolution fc1_, fc2_;
  Dropout dropout_;
  FastVitScale scale_;
  DropPath drop_path_;
};

}  // namespace transom
