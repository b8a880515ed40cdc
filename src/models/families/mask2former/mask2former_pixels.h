// SPDX-License-Identifier: Apache-2.0
// What Mask2Former makes of the pixels: maps of a backbone, and of these a pixel decoder whose places look at a few
// places of all maps (Zhu et al., Deformable DETR, 2021). B batch, S places of three maps, D width of the maps.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "models/diffusion/blocks/image_layers.h"
#include "models/families/mask2former/mask2former_config.h"
#include "models/families/resnet/resnet_body.h"
#include "models/families/swin/swin_backbone.h"

namespace transom {

class Mask2FormerBackbone {
 public:
  Mask2FormerBackbone(const Config& config, const Scope& scope);
  // [B, channels, H, W] -> maps of the stages that the configuration names, each [B, C, h, w], the finest first.
  std::vector<Tensor> operator()(const Tensor& image, ForwardContext& context) const;
  const std::vector<int64_t>& widths() const { return widths_; }  // channels of the maps
  int64_t num_channels() const;                                   // of pictures

 private:
  using Plain = ResNetBody<BatchNorm>;
  using Body = std::variant<SwinBackbone, Plain>;
  static Body make_body(const Config& backbone, const std::vector<int64_t>& stages, const Scope& scope);

  Config backbone_;
  std::vector<int64_t> stages_, widths_;  // 0 is the stem
  Body body_;
};

struct Mask2FormerPixels {
  Tensor last_map;           // of the backbone
  std::vector<Tensor> maps;  // that queries look at, each [B, D, h, w], the coarsest first
  // [B, mask_feature_size, h, w]: vectors of pixels, whose products with those of queries are masks.
  Tensor features;
};

// Sinusoids of the rows and columns of a map: f32 [1, h w, width].
Tensor mask2former_positions(int64_t height, int64_t width_of_map, int64_t width);

class Mask2FormerPixelLayer;

class Mask2FormerPixelModule {
 public:
  Mask2FormerPixelModule(const Config& config, const Mask2FormerConfig& c, const Scope& scope);
  ~Mask2FormerPixelModule();
  Mask2FormerPixels operator()(const Tensor& image, ForwardContext& context) const;
  int64_t num_channels() const { return backbone_.num_channels(); }

 private:
  struct Projection {
    Convolution convolution;
    GroupNorm norm;
    Tensor operator()(const Tensor& x, const ForwardContext& context) const {
      return norm(convolution(x, context), context);
    }
  };
  static Projection projection(const Scope& scope, int64_t in, int64_t out, int64_t window, bool bias);

  Mask2FormerConfig c_;
  Mask2FormerBackbone backbone_;
  std::shared_ptr<Parameter> level_embed_;
  std::vector<Projection> input_projections_, adapters_, joined_;
  std::vector<Mask2FormerPixelLayer> layers_;
  Convolution mask_projection_;
};

}  // namespace transom
