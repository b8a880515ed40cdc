// SPDX-License-Identifier: Apache-2.0
// The body of BEiT (Bao et al., 2021): ViT whose scores have biases by the distance of two patches, and whose residual
// branches are scaled. B batch, P patches, T = 1 + P tokens, D hidden, H heads.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/attention/attention.h"
#include "models/nn/vision/upsampling.h"
#include "models/shared/encoder_body.h"
#include "models/shared/vision_inputs.h"

namespace transom {

struct BeitConfig {
  explicit BeitConfig(const Config& config)
      : vocab_size(positive(config, "vocab_size", 8192)),
        hidden_size(positive(config, "hidden_size", 768)),
        num_hidden_layers(config.get_int("num_hidden_layers", 12)),
        num_attention_heads(positive(config, "num_attention_heads", 12)),
        intermediate_size(config.get_int("intermediate_size", 3072)),
        num_channels(config.get_int("num_channels", 3)),
        num_labels(number_of_labels(config)),
        image_size(config.get_pair("image_size", 224)),
        patch_size(config.get_pair("patch_size", 16)),
        hidden_dropout_prob(config.get_float("hidden_dropout_prob", 0)),
        attention_probs_dropout_prob(config.get_float("attention_probs_dropout_prob", 0)),
        drop_path_rate(config.get_float("drop_path_rate", 0.1)),
        layer_norm_eps(config.get_float("layer_norm_eps", 1e-12)),
        layer_scale_init_value(config.get_float("layer_scale_init_value", 0.1)),
        initializer_range(config.get_float("initializer_range", 0.02)),
        hidden_act(config.get_string("hidden_act", "gelu")),
        problem_type(config.get_string("problem_type", "")),
        use_mask_token(config.get_bool("use_mask_token", false)),
        use_absolute_position_embeddings(config.get_bool("use_absolute_position_embeddings", false)),
        use_relative_position_bias(config.get_bool("use_relative_position_bias", false)),
        use_shared_relative_position_bias(config.get_bool("use_shared_relative_position_bias", false)),
        use_mean_pooling(config.get_bool("use_mean_pooling", true)) {
    // Of its head that segments, which is not here: Transformers writes them for every class.
    for (const char* unread :
         {"add_fpn", "pool_scales", "use_auxiliary_head", "auxiliary_loss_weight", "auxiliary_channels",
          "auxiliary_num_convs", "auxiliary_concat_input", "semantic_loss_ignore_index"})
      config.get_json(unread);
    if (hidden_size % num_attention_heads != 0)
      fail("{}: hidden_size {} is not divisible by num_attention_heads {}", config.where(), hidden_size,
           num_attention_heads);
  }
  int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, num_channels, num_labels;
  Extents image_size, patch_size;
  double hidden_dropout_prob, attention_probs_dropout_prob, drop_path_rate, layer_norm_eps, layer_scale_init_value,
      initializer_range;
  std::string hidden_act, problem_type;
  bool use_mask_token, use_absolute_position_embeddings, use_relative_position_bias, use_shared_relative_position_bias,
      use_mean_pooling;
  Linear::Options new_weights(bool bias = true) const { return {.bias = bias, .deviation = initializer_range}; }
};

// Biases by the distance of two patches of a grid, and three more: from the class to patches, from patches to the
// class, and of the class itself. For a picture of another grid the table of distances is resampled.
class BeitPositionBias {
 public:
  BeitPositionBias(const Scope& scope, const BeitConfig& c)
      : grid_(patch_grid(c.image_size, c.patch_size)),
        table_(scope.parameter("relative_position_bias_table", {distances(grid_) + 3, c.num_attention_heads},
                               Initial::zeros())) {
    scope.derived("relative_position_index");  // which older checkpoints hold
  }
  Tensor operator()(Extents grid, const Computing& computing) const {  // [1, H, T, T]
    const int64_t known = distances(grid_), heads = table_->value.dim(1), T = 1 + grid[0] * grid[1];
    Tensor table = table_->value;
    if (grid != grid_) {
      const Tensor of_patches = reshape(slice(table, 0, 0, known), {1, 2 * grid_[0] - 1, 2 * grid_[1] - 1, heads});
      const Tensor resized =
          resize_bilinear(permute(of_patches, {0, 3, 1, 2}), 2 * grid[0] - 1, 2 * grid[1] - 1, false, computing);
      table = concatenate({reshape(permute(resized, {0, 2, 3, 1}), {distances(grid), heads}),
                           cast(slice(table, 0, known, known + 3), resized.dtype())},
                          0);
    }
    return unsqueeze(permute(gather(table, Tensor::from(rows_of_pairs(grid), {T, T}), 0), {2, 0, 1}), 0);
  }

 private:
  static int64_t distances(Extents grid) { return (2 * grid[0] - 1) * (2 * grid[1] - 1); }
  static std::vector<int64_t> rows_of_pairs(Extents grid) {
    const int64_t rows = grid[0], columns = grid[1], T = 1 + rows * columns, special = distances(grid);
    std::vector<int64_t> index;
    index.reserve(static_cast<size_t>(T * T));
    for (int64_t from = -1; from + 1 < T; ++from)
      for (int64_t to = -1; to + 1 < T; ++to)
        if (from < 0 || to < 0) index.push_back(special + (from >= 0 ? 1 : to >= 0 ? 0 : 2));
        else
          index.push_back((from / columns - to / columns + rows - 1) * (2 * columns - 1) + from % columns -
                          to % columns + columns - 1);
    return index;
  }

  Extents grid_;
  std::shared_ptr<Parameter> table_;
};

class BeitEmbeddings {
 public:
  BeitEmbeddings(const Scope& scope, const BeitConfig& c)
      : patch_size_(c.patch_size),
        grid_(patch_grid(c.image_size, c.patch_size)),
        num_channels_(c.num_channels),
        cls_token_(scope.parameter("cls_token", {1, 1, c.hidden_size}, Initial::zeros())),
        patch_embeddings_(scope / "patch_embeddings" / "projection", c.num_channels, c.hidden_size, c.patch_size,
                          c.initializer_range),
        dropout_(c.hidden_dropout_prob) {
    if (c.use_mask_token) mask_token_ = scope.parameter("mask_token", {1, 1, c.hidden_size}, Initial::zeros());
    if (c.use_absolute_position_embeddings)
      position_embeddings_ =
          scope.parameter("position_embeddings", {1, 1 + grid_[0] * grid_[1], c.hidden_size}, Initial::zeros());
  }
  Tensor operator()(const NamedTensors& inputs, Extents& grid, ForwardContext& context) const {  // -> [B, T, D]
    const Tensor& image = image_input(inputs, num_channels_);
    const Extents size = size_of(image);
    grid = patch_grid(size, patch_size_);
    const Tensor masked = inputs.find("bool_masked_pos");
    if (masked.defined() && !mask_token_) fail("bool_masked_pos: this model has no mask token (use_mask_token)");
    Tensor patches = patch_embeddings_(image, context);
    if (masked.defined()) patches = with_masked_patches(patches, masked, mask_token_->value);
    const Tensor first = broadcast_to(cast(cls_token_->value, patches.dtype()), {patches.dim(0), 1, patches.dim(2)});
    const Tensor x = concatenate({first, patches}, 1);
    return dropout_(position_embeddings_ ? x + positions(size, grid, context.computing) : x, context);
  }

 private:
  // Pictures of any size are taken: the positions are resampled unless they fit.
  Tensor positions(Extents size, Extents grid, const Computing& computing) const {
    if (grid[0] * grid[1] == grid_[0] * grid_[1] && size[0] == size[1]) return position_embeddings_->value;
    return interpolated_positions(position_embeddings_->value, 1, grid, computing);
  }

  Extents patch_size_, grid_;
  int64_t num_channels_;
  std::shared_ptr<Parameter> cls_token_, mask_token_, position_embeddings_;
  PatchEmbeddings patch_embeddings_;
  Dropout dropout_;
};

class BeitLayer {
 public:
  BeitLayer(const Scope& scope, const BeitConfig& c, double drop_path)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        activation_(c.hidden_act),
        layernorm_before_(scope / "layernorm_before", c.hidden_size, c.layer_norm_eps),
        query_(scope / "attention" / "attention" / "query", c.hidden_size, c.hidden_size, c.new_weights()),
        key_(scope / "attention" / "attention" / "key", c.hidden_size, c.hidden_size, c.new_weights(false)),
        value_(scope / "attention" / "attention" / "value", c.hidden_size, c.hidden_size, c.new_weights()),
        attention_output_(scope / "attention" / "output" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        layernorm_after_(scope / "layernorm_after", c.hidden_size, c.layer_norm_eps),
        intermediate_(scope / "intermediate" / "dense", c.hidden_size, c.intermediate_size, c.new_weights()),
        output_(scope / "output" / "dense", c.intermediate_size, c.hidden_size, c.new_weights()),
        attention_dropout_(c.attention_probs_dropout_prob),
        dropout_(c.hidden_dropout_prob),
        drop_path_(drop_path) {
    if (c.use_relative_position_bias)
      relative_position_bias_.emplace(scope / "attention" / "attention" / "relative_position_bias", c);
    if (c.layer_scale_init_value > 0) {
      lambda_1_ = scope.parameter("lambda_1", {c.hidden_size}, Initial::constant(c.layer_scale_init_value));
      lambda_2_ = scope.parameter("lambda_2", {c.hidden_size}, Initial::constant(c.layer_scale_init_value));
    }
  }
  // [B, T, D] of a grid; `shared`: biases of all layers, or empty.
  Tensor operator()(const Tensor& x, const Tensor& shared, Extents grid, ForwardContext& context) const {
    Tensor attended;
    {
      const ModuleScope module(path_ + ".attention.attention");
      Tensor bias = shared;
      if (relative_position_bias_) {
        const Tensor own = (*relative_position_bias_)(grid, context.computing);
        bias = shared.defined() ? own + shared : own;
      }
      const Tensor normed = layernorm_before_(x, context);
      attended = multi_head_attention(query_(normed, context), key_(normed, context), value_(normed, context), heads_,
                                      bias, attention_dropout_, context);
    }
    const Tensor h = x + branch(attention_output_(attended, context), lambda_1_, context);
    const Tensor inner = activation(activation_, intermediate_(layernorm_after_(h, context), context));
    return h + branch(output_(inner, context), lambda_2_, context);
  }

 private:
  Tensor branch(const Tensor& x, const std::shared_ptr<Parameter>& scale, ForwardContext& context) const {
    const Tensor dropped = dropout_(x, context);
    return drop_path_(scale ? dropped * scale->value : dropped, context);
  }

  std::string path_;
  int64_t heads_;
  std::string activation_;
  LayerNorm layernorm_before_;
  Linear query_, key_, value_, attention_output_;
  LayerNorm layernorm_after_;
  Linear intermediate_, output_;
  Dropout attention_dropout_, dropout_;
  DropPath drop_path_;
  std::optional<BeitPositionBias> relative_position_bias_;
  std::shared_ptr<Parameter> lambda_1_, lambda_2_;
};

class BeitBody {
 public:
  BeitBody(const Scope& scope, const BeitConfig& c) : embeddings_(scope / "embeddings", c) {
    const Scope encoder = scope / "encoder";
    if (c.use_shared_relative_position_bias) shared_.emplace(encoder / "relative_position_bias", c);
    const auto last = static_cast<double>(std::max<int64_t>(c.num_hidden_layers - 1, 1));
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      layers_.emplace_back(encoder / "layer" / i, c, c.drop_path_rate * static_cast<double>(i) / last);
    if (!c.use_mean_pooling) layernorm_.emplace(scope / "layernorm", c.hidden_size, c.layer_norm_eps);
  }
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    EncoderOutput output;
    Extents grid;
    Tensor x = embeddings_(inputs, grid, context);
    const Tensor shared = shared_ ? (*shared_)(grid, context.computing) : Tensor();
    if (context.output_hidden_states) output.hidden_states.push_back(x);
    for (const BeitLayer& layer : layers_) {
      if (context.gradient_checkpointing && context.training) {
        const auto region = [&](const std::vector<Tensor>& in) {
          return layer(in[0], in.size() > 1 ? in[1] : Tensor(), grid, context);
        };
        x = checkpoint(region, shared.defined() ? std::vector<Tensor>{x, shared} : std::vector<Tensor>{x});
      } else {
        x = layer(x, shared, grid, context);
      }
      if (context.output_hidden_states) output.hidden_states.push_back(x);
    }
    output.last_hidden_state = layernorm_ ? (*layernorm_)(x, context) : x;
    return output;
  }

 private:
  BeitEmbeddings embeddings_;
  std::optional<BeitPositionBias> shared_;
  std::vector<BeitLayer> layers_;
  std::optional<LayerNorm> layernorm_;
};

}  // namespace transom
