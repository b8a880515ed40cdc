// SPDX-License-Identifier: Apache-2.0
// The body of LayoutLMv3 (Huang et al., 2022): the words of a page with their boxes, and behind them the patches of its
// picture, through RoBERTa's layers with biases by the distances of places and of boxes. B batch, T words, P places of
// the picture, S = T + P, D hidden, H heads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/families/bert/bert_encoder.h"
#include "models/families/layoutlm/word_boxes.h"
#include "models/shared/vision_inputs.h"

namespace transom {

struct LayoutLMv3Config : BertConfig {
  explicit LayoutLMv3Config(const Config& config);
  int64_t max_2d_position_embeddings, coordinate_size, shape_size, input_size, num_channels, rel_pos_bins, max_rel_pos,
      rel_2d_pos_bins, max_rel_2d_pos;
  Extents patch_size;
  bool has_relative_attention_bias, has_spatial_attention_bias, visual_embed;
};

class LayoutLMv3TextEmbeddings {
 public:
  LayoutLMv3TextEmbeddings(const Scope& scope, const LayoutLMv3Config& config);
  Tensor operator()(const EncoderInputs& in, const Tensor& boxes, ForwardContext& context) const;  // [B, T, D]
  const Embedding& word_embeddings() const { return word_embeddings_; }

 private:
  Embedding word_embeddings_, token_type_embeddings_;
  LayerNorm layer_norm_;
  Embedding position_embeddings_;
  BoxEmbeddings boxes_;
  Dropout dropout_;
};

// The token before the patches of a picture, and where all of them stand. They come first among the body's parameters.
struct PictureTokens {
  PictureTokens(const Scope& scope, const LayoutLMv3Config& config);
  int64_t grid;  // patches of a side
  std::shared_ptr<Parameter> cls_token, pos_embed;
};

// The picture's patches behind a token of their own, and the boxes that they stand in.
class LayoutLMv3Picture {
 public:
  LayoutLMv3Picture(const Scope& scope, const LayoutLMv3Config& config, PictureTokens tokens);
  Tensor operator()(const NamedTensors& inputs, ForwardContext& context) const;  // [B, P, D]
  Tensor boxes(int64_t batch) const;                                             // i64 [B, P, 4]
  // Norm and dropout of words and patches together.
  Tensor joined(const Tensor& words, const Tensor& patches, ForwardContext& context) const;

 private:
  int64_t side_, channels_;
  PictureTokens tokens_;
  PatchEmbeddings patch_embed_;
  LayerNorm layer_norm_, norm_;
  Dropout dropout_;
};

// One table of biases by distance: a layer without a bias from a distance's bucket.
class DistanceBias {
 public:
  DistanceBias(const Scope& scope, const LayoutLMv3Config& config, int64_t buckets, int64_t farthest);
  Tensor operator()(const Tensor& places, const ForwardContext& context) const;  // i64 [B or 1, S] -> [.., H, S, S]

 private:
  int64_t buckets_, farthest_;
  std::shared_ptr<Parameter> weight_;  // [H, buckets]
};

class LayoutLMv3Body {
 public:
  using Settings = LayoutLMv3Config;
  static constexpr const char* kPrefix = "layoutlmv3";
  // Its biases are of all pairs of places in a row.
  static constexpr bool kTextsInRows = false;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids",    "bbox",          "attention_mask", "token_type_ids",
            "position_ids", "inputs_embeds", "pixel_values",   target};
  }

  LayoutLMv3Body(const Scope& scope, const LayoutLMv3Config& config);
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const;

 private:
  Tensor position_bias(int64_t length, const Tensor& boxes, ForwardContext& context) const;

  LayoutLMv3Config config_;
  std::optional<PictureTokens> tokens_;
  LayoutLMv3TextEmbeddings embeddings_;
  std::optional<LayoutLMv3Picture> picture_;
  std::vector<BertLayer> layers_;
  std::optional<DistanceBias> rel_pos_bias_, rel_pos_x_bias_, rel_pos_y_bias_;
};

}  // namespace transom
