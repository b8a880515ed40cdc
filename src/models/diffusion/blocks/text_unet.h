// SPDX-License-Identifier: Apache-2.0
// The U-Net that a text steers (Rombach et al., 2022): its configuration, and its half from the map down to the bottom,
// which ControlNet (Zhang et al., 2023) copies. B batch, T width of the time, D width of the text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/diffusion/blocks/timestep_embedding.h"
#include "models/diffusion/blocks/unet_blocks.h"

namespace transom {

// What the U-Net adds to its maps where a ControlNet steers it, by the names of diffusers' arguments.
inline constexpr const char* kMidResidual = "mid_block_additional_residual";
std::string down_residual(int64_t map);  // "down_block_additional_residuals.0"

struct TextUNetConfig {
  // Without a way up fields of the way up are not read, and num_attention_heads is, as ControlNetModel has it.
  TextUNetConfig(const Config& config, bool has_way_up);

  ResidualOptions residual() const;
  // `block` counts from the top on the way down; `depths`: of the transformer behind each layer.
  UNetBlockOptions block(size_t block, UNetBlockOptions::Attention attention, int64_t count,
                         const std::vector<int64_t>& depths, bool resamples) const;
  UNetMidBlock::Options middle() const;
  // Of each map on the way down, that of the first convolution the first.
  std::vector<int64_t> skip_channels() const;
  int64_t skips() const { return static_cast<int64_t>(skip_channels().size()); }
  // Refuses what is no map [B, in_channels, H, W].
  void check_sample(const Tensor& sample) const;

  std::vector<int64_t> channels, layers, context, head_widths, heads;
  std::vector<std::string> down_types, up_types;
  std::vector<bool> only_cross;
  int64_t in_channels, out_channels, groups, in_window, out_window, downsample_padding, time_width, condition_width,
      text_width, classes, projected_width, addition_width;
  double epsilon, dropout, mid_scale, frequency_shift;
  bool centres, cosines_first, linear_projection, concatenates_class, has_mid, scales_by_time = false;
  std::string activation, last_time_activation, time_activation, mid_type, class_type, addition_type;
  std::vector<std::vector<int64_t>> transformers, up_transformers;  // of each block, its layers

 private:
  MapTransformerOptions transformer(size_t block, int64_t depth) const;
  void read_reversed(const Config& config);
  void check(const Config& config);
  void check_sizes(const Config& config) const;
};

class TextUNetEncoder {
 public:
  TextUNetEncoder(const Scope& scope, const TextUNetConfig& c, const Config& config);

  // Of the inputs timestep, encoder_hidden_states and, by the configuration, timestep_cond, class_labels, text_embeds,
  // time_ids; encoder_attention_mask.
  Told told(const NamedTensors& inputs, int64_t B, ForwardContext& context) const;
  Tensor first(const Tensor& sample, ForwardContext& context) const;  // the first convolution
  // From its map to the bottom. Adds each map to `skips`, x the first.
  Tensor operator()(Tensor x, const Told& told, std::vector<Tensor>& skips, ForwardContext& context) const;

 private:
  void add_embeddings(const Scope& scope);
  Tensor sines(const Tensor& numbers, int64_t width, DType dtype) const;
  Tensor time_of(const NamedTensors& inputs, int64_t B, const Tensor& text, ForwardContext& context) const;
  Tensor class_of(const Tensor& labels, DType dtype, ForwardContext& context) const;

  TextUNetConfig c_;
  Convolution conv_in_;
  TimeEmbedding time_embedding_;
  std::optional<Embedding> class_table_;
  std::optional<TimeEmbedding> class_embedding_, add_embedding_;
  std::optional<Linear> class_projection_, encoder_hid_proj_;
  std::vector<UNetDownBlock> down_;
  std::optional<UNetMidBlock> mid_;
};

}  // namespace transom
