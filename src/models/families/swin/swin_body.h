// SPDX-License-Identifier: Apache-2.0
// The body of Swin (Liu et al., 2021): patches through the stages of swin_stages.h, and a norm. B batch, L places of
// the grid, C channels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/families/swin/swin_stages.h"
#include "models/family.h"
#include "models/shared/vision_inputs.h"

namespace transom {

struct SwinConfig : SwinStagesConfig {
  explicit SwinConfig(const Config& config)
      : SwinStagesConfig{.embed_dim = positive(config, "embed_dim", 96),
                         .window_size = positive(config, "window_size", 7),
                         .depths = config.get_ints("depths", {2, 2, 6, 2}),
                         .num_heads = config.get_ints("num_heads", {3, 6, 12, 24}),
                         .mlp_ratio = config.get_float("mlp_ratio", 4),
                         .hidden_dropout_prob = config.get_float("hidden_dropout_prob", 0),
                         .attention_probs_dropout_prob = config.get_float("attention_probs_dropout_prob", 0),
                         .drop_path_rate = config.get_float("drop_path_rate", 0.1),
                         .layer_norm_eps = config.get_float("layer_norm_eps", 1e-5),
                         .deviation = config.get_float("initializer_range", 0.02),
                         .hidden_act = config.get_string("hidden_act", "gelu"),
                         .qkv_bias = config.get_bool("qkv_bias", true)},
        image_size(config.get_pair("image_size", 224)),
        patch_size(config.get_pair("patch_size", 4)),
        num_channels(config.get_int("num_channels", 3)),
        encoder_stride(positive(config, "encoder_stride", 32)),
        num_labels(number_of_labels(config)),
        problem_type(config.get_string("problem_type", "")),
        use_absolute_embeddings(config.get_bool("use_absolute_embeddings", false)) {
    check(config.where());
  }
  Extents image_size, patch_size;
  int64_t num_channels, encoder_stride, num_labels;
  std::string problem_type;
  bool use_absolute_embeddings;
};

struct SwinOutput {
  Tensor last_hidden_state;           // [B, L, C] of the last stage
  std::vector<Tensor> hidden_states;  // patches, then behind each stage and its merging
};

class SwinBody {
 public:
  // `norm`: of what the last stage gives; Donut's has none.
  SwinBody(const Scope& scope, const SwinConfig& c, bool use_mask_token = false, bool norm = true)
      : c_(c),
        grid_(patch_grid(c.image_size, c.patch_size)),
        patch_embeddings_(scope / "embeddings" / "patch_embeddings" / "projection", c.num_channels, c.embed_dim,
                          c.patch_size, c.deviation),
        embeddings_norm_(scope / "embeddings" / "norm", c.embed_dim, 1e-5),
        dropout_(c.hidden_dropout_prob),
        stages_(scope / "encoder" / "layers", c) {
    if (norm) layernorm_.emplace(scope / "layernorm", c.width(), c.layer_norm_eps);
    if (use_mask_token)
      mask_token_ = (scope / "embeddings").parameter("mask_token", {1, 1, c.embed_dim}, Initial::zeros());
    if (c.use_absolute_embeddings)
      position_embeddings_ =
          (scope / "embeddings")
              .parameter("position_embeddings", {1, grid_[0] * grid_[1], c.embed_dim}, Initial::zeros());
  }

  SwinOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    Extents grid;
    const Tensor x = embed(inputs, context, grid);
    SwinOutput output{.last_hidden_state = {}, .hidden_states = stages_(x, grid, context)};
    const Tensor& last = output.hidden_states.back();
    output.last_hidden_state = layernorm_ ? (*layernorm_)(last, context) : last;
    return output;
  }

 private:
  Tensor embed(const NamedTensors& inputs, ForwardContext& context, Extents& grid) const {
    const Tensor& image = image_input(inputs, c_.num_channels);
    const Extents size = size_of(image), patch = c_.patch_size;
    // An image that no patches fill is padded.
    grid = {(size[0] + patch[0] - 1) / patch[0], (size[1] + patch[1] - 1) / patch[1]};
    const Tensor padded = pad(image, {0, 0, 0, 0}, {0, 0, grid[0] * patch[0] - size[0], grid[1] * patch[1] - size[1]});
    Tensor x = embeddings_norm_(patch_embeddings_(padded, context), context);
    const Tensor masked = inputs.find("bool_masked_pos");
    if (masked.defined() && !mask_token_) fail("bool_masked_pos: this model has no mask token");
    if (masked.defined()) x = with_masked_patches(x, masked, mask_token_->value);
    if (position_embeddings_) x = x + positions(size, x.dim(1), context);
    return dropout_(x, context);
  }
  Tensor positions(Extents size, int64_t patches, const ForwardContext& context) const {
    const Tensor& all = position_embeddings_->value;
    if (!context.interpolate_pos_encoding && patches != all.dim(1))
      fail("pixel_values: {} patches do not fit {} position embeddings; interpolate_pos_encoding admits other sizes",
           patches, all.dim(1));
    if (!context.interpolate_pos_encoding || (patches == all.dim(1) && size[0] == size[1])) return all;
    return interpolated_positions(all, 0, patch_grid(size, c_.patch_size), context.computing);
  }

  SwinConfig c_;
  Extents grid_;
  PatchEmbeddings patch_embeddings_;
  LayerNorm embeddings_norm_;
  std::shared_ptr<Parameter> mask_token_, position_embeddings_;
  Dropout dropout_;
  SwinStages stages_;
  std::optional<LayerNorm> layernorm_;
};

inline NamedTensors with_swin_states(NamedTensors outputs, const SwinOutput& output, const ForwardContext& context) {
  if (context.output_hidden_states) add_hidden_states(outputs, output.hidden_states);
  return outputs;
}

}  // namespace transom
