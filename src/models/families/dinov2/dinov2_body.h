// SPDX-License-Identifier: Apache-2.0
// The body of DINOv2 (Oquab et al., 2023), also the backbone of families for dense predictions: ViT with scaled
// residual branches and, in the giant model, a gated feed-forward layer. B batch, P patches, T = 1 + P tokens, D
// hidden.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/attention/attention.h"
#include "models/shared/vision_inputs.h"

namespace transom {

inline constexpr const char* kDinov2ModelType = "dinov2";
// With tokens behind that of the class in which the layers keep notes (Darcet et al., 2023).
inline constexpr const char* kDinov2WithRegistersModelType = "dinov2_with_registers";

struct Dinov2Config {
  explicit Dinov2Config(const Config& config)
      : hidden_size(positive(config, "hidden_size", 768)),
        num_hidden_layers(config.get_int("num_hidden_layers", 12)),
        num_attention_heads(positive(config, "num_attention_heads", 12)),
        num_channels(config.get_int("num_channels", 3)),
        num_labels(number_of_labels(config)),
        image_size(config.get_pair("image_size", 224)),
        patch_size(config.get_pair("patch_size", 14)),
        mlp_ratio(config.get_float("mlp_ratio", 4)),
        hidden_dropout_prob(config.get_float("hidden_dropout_prob", 0)),
        attention_probs_dropout_prob(config.get_float("attention_probs_dropout_prob", 0)),
        drop_path_rate(config.get_float("drop_path_rate", 0)),
        layer_norm_eps(config.get_float("layer_norm_eps", 1e-6)),
        layerscale_value(config.get_float("layerscale_value", 1)),
        initializer_range(config.get_float("initializer_range", 0.02)),
        hidden_act(config.get_string("hidden_act", "gelu")),
        problem_type(config.get_string("problem_type", "")),
        qkv_bias(config.get_bool("qkv_bias", true)),
        use_swiglu_ffn(config.get_bool("use_swiglu_ffn", false)),
        use_mask_token(config.get_bool("use_mask_token", true)),
        registers(config.get_string("model_type", "") == kDinov2WithRegistersModelType
                      ? positive(config, "num_register_tokens", 4)
                      : 0) {
    if (registers > 0 && !config.has("patch_size")) patch_size = {16, 16};
    if (hidden_size % num_attention_heads != 0)
      fail("config.json: hidden_size {} is not divisible by num_attention_heads {}", hidden_size, num_attention_heads);
  }
  int64_t hidden_size, num_hidden_layers, num_attention_heads, num_channels, num_labels;
  Extents image_size, patch_size;
  double mlp_ratio, hidden_dropout_prob, attention_probs_dropout_prob, drop_path_rate, layer_norm_eps, layerscale_value,
      initializer_range;
  std::string hidden_act, problem_type;
  bool qkv_bias, use_swiglu_ffn, use_mask_token;
  int64_t registers;  // 0: a model without
  Linear::Options new_weights(bool bias = true) const { return {.bias = bias, .deviation = initializer_range}; }
  int64_t mlp_width() const { return static_cast<int64_t>(static_cast<double>(hidden_size) * mlp_ratio); }
};

class Dinov2Embeddings {
 public:
  Dinov2Embeddings(const Scope& scope, const Dinov2Config& c)
      : patch_size_(c.patch_size),
        grid_(patch_grid(c.image_size, c.patch_size)),
        num_channels_(c.num_channels),
        cls_token_(scope.parameter("cls_token", {1, 1, c.hidden_size}, Initial::normal(c.initializer_range))),
        position_embeddings_(scope.parameter("position_embeddings", {1, 1 + grid_[0] * grid_[1], c.hidden_size},
                                             Initial::normal(c.initializer_range))),
        patch_embeddings_(scope / "patch_embeddings" / "projection", c.num_channels, c.hidden_size, c.patch_size,
                          c.initializer_range),
        dropout_(c.hidden_dropout_prob) {
    if (c.use_mask_token) mask_token_ = scope.parameter("mask_token", {1, c.hidden_size}, Initial::zeros());
    if (c.registers > 0)
      register_tokens_ = scope.parameter("register_tokens", {1, c.registers, c.hidden_size}, Initial::zeros());
  }

  Tensor operator()(const NamedTensors& inputs, ForwardContext& context) const {  // -> [B, T, D]
    const Tensor& image = image_input(inputs, num_channels_);
    const Tensor masked = inputs.find("bool_masked_pos");
    if (masked.defined() && !mask_token_) fail("bool_masked_pos: this model has no mask token (use_mask_token)");
    Tensor patches = patch_embeddings_(image, context);
    if (masked.defined()) patches = with_masked_patches(patches, masked, mask_token_->value);
    const int64_t B = patches.dim(0), D = patches.dim(2);
    const Tensor x = concatenate({broadcast_to(cast(cls_token_->value, patches.dtype()), {B, 1, D}), patches}, 1);
    const Tensor placed = x + positions(size_of(image), context.computing);
    if (!register_tokens_) return dropout_(placed, context);
    const Tensor registers = cast(register_tokens_->value, placed.dtype());
    return dropout_(concatenate({slice(placed, 1, 0, 1), broadcast_to(registers, {B, registers.dim(1), D}),
                                 slice(placed, 1, 1, placed.dim(1))},
                                1),
                    context);
  }

 private:
  // Images of any size are taken: the positions are resampled unless they fit.
  Tensor positions(Extents size, const Computing& computing) const {
    const Extents grid = patch_grid(size, patch_size_);
    if (grid[0] * grid[1] == grid_[0] * grid_[1] && size[0] == size[1]) return position_embeddings_->value;
    return interpolated_positions(position_embeddings_->value, 1, grid, computing,
                                  register_tokens_ ? resize_bicubic_antialiased : resize_bicubic);
  }

  Extents patch_size_, grid_;
  int64_t num_channels_;
  std::shared_ptr<Parameter> cls_token_, position_embeddings_, mask_token_, register_tokens_;
  PatchEmbeddings patch_embeddings_;
  Dropout dropout_;
};

class Dinov2MLP {
 public:
  Dinov2MLP(const Scope& scope, const Dinov2Config& c)
      : activation_(c.hidden_act),
        fc1_(scope / "fc1", c.hidden_size, c.mlp_width(), c.new_weights()),
        fc2_(scope / "fc2", c.mlp_width(), c.hidden_size, c.new_weights()) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return fc2_(activation(activation_, fc1_(x, context)), context);
  }

 private:
  std::string activation_;
  Linear fc1_, fc2_;
};

// SwiGLU (Shazeer, 2020), both halves in one matrix: two thirds of the plain width, rounded up to a multiple of 8.
class Dinov2SwiGLU {
 public:
  Dinov2SwiGLU(const Scope& scope, const Dinov2Config& c)
      : width_((static_cast<int64_t>(static_cast<double>(c.mlp_width()) * 2 / 3) + 7) / 8 * 8),
        weights_in_(scope / "weights_in", c.hidden_size, 2 * width_, c.new_weights()),
        weights_out_(scope / "weights_out", width_, c.hidden_size, c.new_weights()) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor both = weights_in_(x, context);
    return weights_out_(silu(slice(both, -1, 0, width_)) * slice(both, -1, width_, 2 * width_), context);
  }

 private:
  int64_t width_;
  Linear weights_in_, weights_out_;
};

class Dinov2Layer {
 public:
  Dinov2Layer(const Scope& scope, const Dinov2Config& c)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        norm1_(scope / "norm1", c.hidden_size, c.layer_norm_eps),
        query_(scope / "attention" / "attention" / "query", c.hidden_size, c.hidden_size, c.new_weights(c.qkv_bias)),
        key_(scope / "attention" / "attention" / "key", c.hidden_size, c.hidden_size, c.new_weights(c.qkv_bias)),
        value_(scope / "attention" / "attention" / "value", c.hidden_size, c.hidden_size, c.new_weights(c.qkv_bias)),
        attention_output_(scope / "attention" / "output" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        layer_scale1_(scope_parameter(scope / "layer_scale1", c)),
        norm2_(scope / "norm2", c.hidden_size, c.layer_norm_eps),
        layer_scale2_(scope_parameter(scope / "layer_scale2", c)),
        attention_dropout_(c.attention_probs_dropout_prob),
        drop_path_(c.drop_path_rate) {
    if (c.use_swiglu_ffn) swiglu_.emplace(scope / "mlp", c);
    else mlp_.emplace(scope / "mlp", c);
  }

  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {  // [B, T, D] -> [B, T, D]
    Tensor attended;
    {
      const ModuleScope module(path_ + ".attention.attention");
      const Tensor normed = norm1_(x, context);
      attended = multi_head_attention(query_(normed, context), key_(normed, context), value_(normed, context), heads_,
                                      mask, attention_dropout_, context);
    }
    const Tensor h = x + drop_path_(attention_output_(attended, context) * layer_scale1_->value, context);
    const Tensor normed = norm2_(h, context);
    return h + drop_path_((swiglu_ ? (*swiglu_)(normed, context) : (*mlp_)(normed, context)) * layer_scale2_->value,
                          context);
  }

 private:
  static std::shared_ptr<Parameter> scope_parameter(const Scope& scope, const Dinov2Config& c) {
    return scope.parameter("lambda1", {c.hidden_size}, Initial::constant(c.layerscale_value));
  }

  std::string path_;
  int64_t heads_;
  LayerNorm norm1_;
  Linear query_, key_, value_, attention_output_;
  std::shared_ptr<Parameter> layer_scale1_;
  LayerNorm norm2_;
  std::optional<Dinov2MLP> mlp_;
  std::optional<Dinov2SwiGLU> swiglu_;
  std::shared_ptr<Parameter> layer_scale2_;
  Dropout attention_dropout_;
  DropPath drop_path_;
};

// Which layers a backbone gives, 0 the embeddings: out_indices, else out_features ("stage9"; "stem" are the
// embeddings), else the last one.
inline std::vector<int64_t> dinov2_backbone_layers(const Config& backbone) {
  const int64_t last = backbone.get_int("num_hidden_layers", 12);
  std::vector<int64_t> layers;
  if (backbone.has("out_indices")) layers = backbone.get_ints("out_indices", {});
  else if (backbone.has("out_features")) {
    for (const std::string& name : backbone.get_strings("out_features"))
      for (int64_t i = 0; i <= last; ++i)
        if (name == (i == 0 ? "stem" : "stage" + std::to_string(i))) layers.push_back(i);
  } else layers = {last};
  for (int64_t& layer : layers) {
    if (layer < 0) layer += last + 1;
    if (layer < 0 || layer > last)
      fail("{}: out_indices: expected numbers from 0 to {}, the layers of the backbone", backbone.where(), last);
  }
  return layers;
}

class Dinov2Body {
 public:
  Dinov2Body(const Scope& scope, const Dinov2Config& c)
      : embeddings_(scope / "embeddings", c), layernorm_(scope / "layernorm", c.hidden_size, c.layer_norm_eps) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c);
  }
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    EncoderOutput output = through_layers(layers_, embeddings_(inputs, context), Tensor(), context);
    output.last_hidden_state = layernorm_(output.last_hidden_state, context);
    return output;
  }

  // What the layers of these numbers give, as a backbone does: 0 are the embeddings.
  std::vector<Tensor> states_of(const std::vector<int64_t>& layers, const NamedTensors& inputs, bool normed,
                                ForwardContext& context) const {
    std::vector<Tensor> states;
    Tensor x = embeddings_(inputs, context);
    for (size_t i = 0;; ++i) {
      if (std::find(layers.begin(), layers.end(), static_cast<int64_t>(i)) != layers.end())
        states.push_back(normed ? layernorm_(x, context) : x);
      if (i == layers_.size()) return states;
      x = layers_[i](x, Tensor(), context);
    }
  }

 private:
  Dinov2Embeddings embeddings_;
  std::vector<Dinov2Layer> layers_;
  LayerNorm layernorm_;
};

}  // namespace transom
