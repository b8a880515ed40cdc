// SPDX-License-Identifier: Apache-2.0
// The blocks of a U-Net (Ronneberger et al., 2015): residual blocks of one resolution, with attention behind each where
// the block has some, and a change of resolution at the end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/diffusion/blocks/image_attention.h"
#include "transom/config.h"

namespace transom {

// What all blocks of a network are told in one pass.
struct Told {
  Tensor time;             // [B, T]
  Tensor text, text_mask;  // [B, tokens, D], [B, tokens]; empty: none
};

// How a block of a type ("CrossAttnDownBlock2D") is made.
struct UNetBlockOptions {
  enum class Attention { kNone, kMap, kText } attention = Attention::kNone;
  ResidualOptions residual;
  int64_t layers = 1;
  int64_t head_width = 8;                           // of kMap
  std::vector<MapTransformerOptions> transformers;  // of kText, one a layer
  bool resamples = true;                            // changes the resolution at the end
  bool resamples_by_block = false;                  // by a residual block, in place of a convolution
  int64_t downsample_padding = 1;
};
// Refuses types that are not carried out, by name. `way` is "Down" or "Up".
UNetBlockOptions::Attention block_attention(const std::string& type, const std::string& way, const Config& config,
                                            const std::string& field);

class UNetLayers {
 public:
  // in[i] are the channels that residual block i reads.
  UNetLayers(const Scope& scope, const std::vector<int64_t>& in, int64_t out, const UNetBlockOptions& options);
  size_t size() const { return residuals_.size(); }
  Tensor operator()(size_t layer, const Tensor& x, const Told& told, ForwardContext& context) const;

 private:
  std::vector<ResidualBlock> residuals_;
  std::vector<MapAttention> map_attentions_;
  std::vector<MapTransformer> text_attentions_;
};

class UNetDownBlock {
 public:
  UNetDownBlock(const Scope& scope, int64_t in, int64_t out, const UNetBlockOptions& options);
  // Adds each of its maps to `skips`.
  Tensor operator()(Tensor x, const Told& told, std::vector<Tensor>& skips, ForwardContext& context) const;

 private:
  UNetLayers layers_;
  std::optional<DiffusionDownsample> downsample_;
  std::optional<ResidualBlock> downsample_block_;
};

class UNetUpBlock {
 public:
  // `below`: the channels of the block before; `skip`: those of the last map that it takes back.
  UNetUpBlock(const Scope& scope, int64_t below, int64_t skip, int64_t out, const UNetBlockOptions& options);
  // Takes maps from the end of `skips`. Its resolution becomes that of the next one there.
  Tensor operator()(Tensor x, const Told& told, std::vector<Tensor>& skips, ForwardContext& context) const;

 private:
  UNetLayers layers_;
  std::optional<DiffusionUpsample> upsample_;
  std::optional<ResidualBlock> upsample_block_;
};

// Two residual blocks with attention between them, or one.
class UNetMidBlock {
 public:
  struct Options {
    UNetBlockOptions::Attention attention = UNetBlockOptions::Attention::kMap;
    bool has_second = true;
    ResidualOptions residual;
    int64_t head_width = 8, attention_groups = 32;  // of kMap
    MapTransformerOptions transformer;              // of kText
  };
  UNetMidBlock(const Scope& scope, int64_t channels, const Options& options);
  Tensor operator()(Tensor x, const Told& told, ForwardContext& context) const;

 private:
  std::vector<ResidualBlock> residuals_;
  std::optional<MapAttention> map_attention_;
  std::optional<MapTransformer> text_attention_;
};

// ---- fields of a configuration

// A number for each of `count` blocks: a list, or one for all.
std::vector<int64_t> per_block(const Config& config, const std::string& field, int64_t otherwise, size_t count);
// block_out_channels: 1 to 16 numbers from 1 to 2^20.
std::vector<int64_t> block_channels(const Config& config, std::vector<int64_t> otherwise);
// A field that must be one of a type's values, or absent.
void refuse_field(const Config& config, const std::string& field, const std::string& why);
// act_fn: one of those that diffusers knows.
std::string diffusion_activation(const Config& config, const std::string& field, const std::string& otherwise);

}  // namespace transom
