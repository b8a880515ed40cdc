// SPDX-License-Identifier: Apache-2.0
// The body of ViT (Dosovitskiy et al., 2020) and DeiT: patches as tokens behind a class token, through pre-norm blocks.
// B batch, P patches, T tokens, D hidden.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/attention/attention.h"
#include "models/shared/encoder_heads.h"
#include "models/shared/vision_inputs.h"

namespace transom {

struct ViTConfig {
  explicit ViTConfig(const Config& config)
      : hidden_size(positive(config, "hidden_size", 768)),
        num_hidden_layers(config.get_int("num_hidden_layers", 12)),
        num_attention_heads(positive(config, "num_attention_heads", 12)),
        intermediate_size(config.get_int("intermediate_size", 3072)),
        num_channels(config.get_int("num_channels", 3)),
        encoder_stride(positive(config, "encoder_stride", 16)),
        pooler_output_size(config.get_int("pooler_output_size", hidden_size)),
        num_labels(number_of_labels(config)),
        image_size(config.get_pair("image_size", 224)),
        patch_size(config.get_pair("patch_size", 16)),
        hidden_dropout_prob(config.get_float("hidden_dropout_prob", 0)),
        attention_probs_dropout_prob(config.get_float("attention_probs_dropout_prob", 0)),
        layer_norm_eps(config.get_float("layer_norm_eps", 1e-12)),
        initializer_range(config.get_float("initializer_range", 0.02)),
        hidden_act(config.get_string("hidden_act", "gelu")),
        pooler_act(config.get_string("pooler_act", "tanh")),
        problem_type(config.get_string("problem_type", "")),
        qkv_bias(config.get_bool("qkv_bias", true)) {
    if (hidden_size % num_attention_heads != 0)
      fail("config.json: hidden_size {} is not divisible by num_attention_heads {}", hidden_size, num_attention_heads);
  }
  int64_t hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, num_channels, encoder_stride,
      pooler_output_size, num_labels;
  Extents image_size, patch_size;
  double hidden_dropout_prob, attention_probs_dropout_prob, layer_norm_eps, initializer_range;
  std::string hidden_act, pooler_act, problem_type;
  bool qkv_bias;
  bool biases_apart = false;  // VideoMAE: queries and values alone have a bias, which stands beside their layers
  Linear::Options new_weights(bool bias = true) const { return {.bias = bias, .deviation = initializer_range}; }
};

// What stands before and among the patches.
struct ViTTokens {
  bool masks = false;      // a token that takes the place of masked patches
  bool distilled = false;  // a second token behind that of the class, which learns from a teacher (DeiT)
  int64_t before_patches() const { return distilled ? 2 : 1; }
};

class ViTEmbeddings {
 public:
  ViTEmbeddings(const Scope& scope, const ViTConfig& c, ViTTokens tokens)
      : first_(tokens.before_patches()),
        image_size_(c.image_size),
        patch_size_(c.patch_size),
        grid_(patch_grid(c.image_size, c.patch_size)),
        num_channels_(c.num_channels),
        cls_token_(scope.parameter("cls_token", {1, 1, c.hidden_size}, Initial::normal(c.initializer_range))),
        position_embeddings_(scope.parameter("position_embeddings", {1, first_ + grid_[0] * grid_[1], c.hidden_size},
                                             Initial::normal(c.initializer_range))),
        patch_embeddings_(scope / "patch_embeddings" / "projection", c.num_channels, c.hidden_size, c.patch_size,
                          c.initializer_range),
        dropout_(c.hidden_dropout_prob) {
    if (tokens.distilled)
      distillation_token_ =
          scope.parameter("distillation_token", {1, 1, c.hidden_size}, Initial::normal(c.initializer_range));
    if (tokens.masks) mask_token_ = scope.parameter("mask_token", {1, 1, c.hidden_size}, Initial::zeros());
  }

  Tensor operator()(const NamedTensors& inputs, ForwardContext& context) const {  // -> [B, T, D]
    const Tensor& image = image_input(inputs, num_channels_);
    const Tensor masked = inputs.find("bool_masked_pos");
    if (masked.defined() && !mask_token_) fail("bool_masked_pos: this model has no mask token");
    Tensor patches = patch_embeddings_(image, context);
    if (masked.defined()) patches = with_masked_patches(patches, masked, mask_token_->value);
    const int64_t B = patches.dim(0), D = patches.dim(2);
    std::vector<Tensor> tokens;
    for (const auto& token : {cls_token_, distillation_token_})
      if (token) tokens.push_back(broadcast_to(cast(token->value, patches.dtype()), {B, 1, D}));
    tokens.push_back(patches);
    const Tensor x = concatenate(tokens, 1);
    return dropout_(x + positions(size_of(image), context), context);
  }

 private:
  Tensor positions(Extents size, const ForwardContext& context) const {
    if (!context.interpolate_pos_encoding && size != image_size_)
      fail("pixel_values: expected images of {}x{}, found {}x{}; interpolate_pos_encoding admits other sizes",
           image_size_[0], image_size_[1], size[0], size[1]);
    const Extents grid = patch_grid(size, patch_size_);
    if (size == image_size_ || (grid[0] * grid[1] == grid_[0] * grid_[1] && size[0] == size[1]))
      return position_embeddings_->value;
    return interpolated_positions(position_embeddings_->value, first_, grid, context.computing);
  }

  int64_t first_;  // tokens before the patches
  Extents image_size_, patch_size_, grid_;
  int64_t num_channels_;
  std::shared_ptr<Parameter> cls_token_, position_embeddings_, distillation_token_, mask_token_;
  PatchEmbeddings patch_embeddings_;
  Dropout dropout_;
};

class ViTLayer {
 public:
  ViTLayer(const Scope& scope, const ViTConfig& c)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        activation_(c.hidden_act),
        layernorm_before_(scope / "layernorm_before", c.hidden_size, c.layer_norm_eps),
        query_(scope / "attention" / "attention" / "query", c.hidden_size, c.hidden_size,
               c.new_weights(c.qkv_bias && !c.biases_apart)),
        key_(scope / "attention" / "attention" / "key", c.hidden_size, c.hidden_size,
             c.new_weights(c.qkv_bias && !c.biases_apart)),
        value_(scope / "attention" / "attention" / "value", c.hidden_size, c.hidden_size,
               c.new_weights(c.qkv_bias && !c.biases_apart)),
        attention_output_(scope / "attention" / "output" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        layernorm_after_(scope / "layernorm_after", c.hidden_size, c.layer_norm_eps),
        intermediate_(scope / "intermediate" / "dense", c.hidden_size, c.intermediate_size, c.new_weights()),
        output_(scope / "output" / "dense", c.intermediate_size, c.hidden_size, c.new_weights()),
        attention_dropout_(c.attention_probs_dropout_prob),
        dropout_(c.hidden_dropout_prob) {
    if (!c.qkv_bias || !c.biases_apart) return;
    const Scope inner = scope / "attention" / "attention";
    q_bias_ = inner.parameter("q_bias", {c.hidden_size}, Initial::zeros());
    v_bias_ = inner.parameter("v_bias", {c.hidden_size}, Initial::zeros());
  }

  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {  // [B, T, D] -> [B, T, D]
    Tensor attended;
    {
      const ModuleScope module(path_ + ".attention.attention");
      const Tensor normed = layernorm_before_(x, context);
      const Tensor q = with_bias(query_(normed, context), q_bias_), v = with_bias(value_(normed, context), v_bias_);
      attended = multi_head_attention(q, key_(normed, context), v, heads_, mask, attention_dropout_, context);
    }
    const Tensor h = x + dropout_(attention_output_(attended, context), context);
    return h + dropout_(output_(activation(activation_, intermediate_(layernorm_after_(h, context), context)), context),
                        context);
  }

 private:
  static Tensor with_bias(const Tensor& x, const std::shared_ptr<Parameter>& bias) {
    return bias ? x + cast(bias->value, x.dtype()) : x;
  }

  std::string path_;
  int64_t heads_;
  std::string activation_;
  std::shared_ptr<Parameter> q_bias_, v_bias_;
  LayerNorm layernorm_before_;
  Linear query_, key_, value_, attention_output_;
  LayerNorm layernorm_after_;
  Linear intermediate_, output_;
  Dropout attention_dropout_, dropout_;
};

class ViTBody {
 public:
  ViTBody(const Scope& scope, const ViTConfig& c, ViTTokens tokens = {})
      : embeddings_(scope / "embeddings", c, tokens), layernorm_(scope / "layernorm", c.hidden_size, c.layer_norm_eps) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c);
  }
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    EncoderOutput output = through_layers(layers_, embeddings_(inputs, context), Tensor(), context);
    output.last_hidden_state = layernorm_(output.last_hidden_state, context);
    return output;
  }

 private:
  ViTEmbeddings embeddings_;
  std::vector<ViTLayer> layers_;
  LayerNorm layernorm_;
};

}  // namespace transom
