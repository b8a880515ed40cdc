// SPDX-License-Identifier: Apache-2.0
// The decoder of Mask2Former (Cheng et al., 2022): queries that look at the places of a map which the mask of the layer
// before them covers. B batch, Q queries, D hidden.
#pragma once

#include <vector>

#include "models/families/mask2former/mask2former_pixels.h"
#include "models/nn/vision/stacked_layers.h"

namespace transom {

struct Mask2FormerPrediction {
  Tensor states;  // [B, Q, D], normed: of which the classes are told
  Tensor masks;   // [B, Q, h, w]: logits
};

struct Mask2FormerDecoded {
  std::vector<Mask2FormerPrediction> predictions;  // of the queries, and behind each layer
  std::vector<Tensor> states;                      // the same before the norm, [B, Q, D]
};

class Mask2FormerDecoderLayer;

class Mask2FormerDecoder {
 public:
  Mask2FormerDecoder(const Scope& scope, const Mask2FormerConfig& c);
  ~Mask2FormerDecoder();
  Mask2FormerDecoded operator()(const Mask2FormerPixels& pixels, ForwardContext& context) const;

 private:
  Mask2FormerPrediction prediction(const Tensor& x, const Tensor& features, ForwardContext& context) const;

  Mask2FormerConfig c_;
  Embedding queries_embedder_, queries_features_, level_embed_;
  std::vector<Convolution> input_projections_;
  std::vector<Mask2FormerDecoderLayer> layers_;
  LayerNorm layernorm_;
  std::vector<Linear> mask_embedder_;
};

}  // namespace transom
