// SPDX-License-Identifier: Apache-2.0
// The parts of SAM (Kirillov et al., 2023). B pictures, N masks a picture, C channels, h x w places of a picture.
#pragma once

#include <memory>
#include <vector>

#include "models/families/sam/sam_config.h"
#include "models/nn/vision/channel_norm.h"
#include "models/nn/vision/convolution.h"
#include "models/nn/vision/upsampling.h"
#include "models/shared/encoder_body.h"
#include "models/shared/vision_inputs.h"

namespace transom {

// Two layers with an activation between them.
class SamMlp {
 public:
  SamMlp(const Scope& scope, int64_t width, int64_t inner, const std::string& act, double deviation);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  std::string activation_;
  Linear lin1_, lin2_;
};

class SamVisionLayer;

// A ViT that sees windows, and in some layers the whole picture. [B, 3, H, W] -> [B, C, h, w].
class SamVisionEncoder {
 public:
  SamVisionEncoder(const Scope& scope, const SamVisionConfig& c);
  ~SamVisionEncoder();
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const;

 private:
  SamVisionConfig c_;
  Convolution patches_;
  std::shared_ptr<Parameter> pos_embed_;  // null: none
  std::vector<SamVisionLayer> layers_;
  Convolution conv1_;
  LayerNorm norm1_;
  Convolution conv2_;
  LayerNorm norm2_;
};

// Places in parts of the picture, (x, y) [..., 2] -> [..., C], as waves of random directions.
class SamPositions {
 public:
  SamPositions(const Scope& scope, const SamVisionConfig& c);
  Tensor operator()(const Tensor& places) const;
  Tensor of_grid(int64_t side) const;  // [side side, C], of the middles of the places
  const std::shared_ptr<Parameter>& weight() const { return positional_embedding_; }

 private:
  std::shared_ptr<Parameter> positional_embedding_;
};

// What a user points at: points, boxes and masks.
class SamPromptEncoder {
 public:
  SamPromptEncoder(const Scope& scope, const SamPromptConfig& c, const SamPositions& positions);
  // [B, N, tokens, C]; empty where nothing is pointed at.
  Tensor tokens(const NamedTensors& inputs) const;
  // What is added to the places of the picture: [1 or B, C, h, w] or [1, C, 1, 1].
  Tensor places(const NamedTensors& inputs, ForwardContext& context) const;

 private:
  Tensor of_points(Tensor points, Tensor labels, bool pads) const;
  Tensor of_boxes(const Tensor& boxes) const;

  SamPromptConfig c_;
  SamPositions positions_;
  Convolution conv1_, conv2_, conv3_;
  LayerNorm norm1_, norm2_;
  std::shared_ptr<Parameter> no_mask_embed_, not_a_point_embed_;
  std::vector<std::shared_ptr<Parameter>> point_embed_;
};

class SamTwoWayLayer;
class SamAttention;

class SamMaskDecoder {
 public:
  SamMaskDecoder(const Scope& scope, const SamConfig& c);
  ~SamMaskDecoder();
  struct Masks {
    Tensor masks, scores;  // [B, N, outputs, 4 h, 4 w] and [B, N, outputs]
  };
  // The picture [B, C, h, w], the positions of its places [h w, C], and the tokens of prompts or an empty tensor.
  Masks operator()(const Tensor& picture, const Tensor& positions, const Tensor& prompts,
                   ForwardContext& context) const;

 private:
  class Perceptron;
  SamDecoderConfig c_;
  std::shared_ptr<Parameter> iou_token_, mask_tokens_;
  std::vector<SamTwoWayLayer> layers_;
  std::unique_ptr<SamAttention> final_attention_;
  LayerNorm final_norm_;
  PixelEnlargement upscale_conv1_, upscale_conv2_;
  LayerNorm upscale_norm_;
  std::vector<Perceptron> hypernetworks_;
  std::unique_ptr<Perceptron> iou_head_;
};

}  // namespace transom
