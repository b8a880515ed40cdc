// SPDX-License-Identifier: Apache-2.0
// How the places of a map see each other and a text. B batch, C channels, S places, T tokens, D hidden.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/diffusion/blocks/image_layers.h"

namespace transom {

// Attention of heads side by side, to the own sequence or to a context of another width.
class DiffusionAttention {
 public:
  struct Options {
    int64_t heads = 1, head_width = 64, context_width = 0;  // 0: its own
    bool bias = false;                                      // of queries, keys and values
    double dropout = 0;
    bool takes_old_names = false;  // query, key, value and proj_attn, as files of diffusers before 0.15 have them
  };
  DiffusionAttention(const Scope& scope, int64_t width, const Options& options);
  // x [B, S, width], of [B, T, context width] or empty: x itself; mask [B, T] or additive, or empty.
  Tensor operator()(const Tensor& x, const Tensor& of, const Tensor& mask, ForwardContext& context) const;

 private:
  std::string path_;
  int64_t heads_;
  Linear to_q_, to_k_, to_v_, to_out_;
  Dropout dropout_;
};

// Places of a map that see each other, beside an identity: [B, C, H, W] -> [B, C, H, W].
class MapAttention {
 public:
  MapAttention(const Scope& scope, int64_t channels, int64_t head_width, int64_t groups, double epsilon,
               double output_scale);
  Tensor operator()(const Tensor& x, ForwardContext& context) const;

 private:
  double output_scale_;
  std::optional<GroupNorm> group_norm_;
  DiffusionAttention attention_;
};

struct MapTransformerOptions {
  int64_t heads = 8, layers = 1, groups = 32, context_width = 0;
  bool linear_projection = false, only_cross_attention = false;
};

// A transformer over the places of a map, each of whose layers looks at itself, at a text, and through gated gelu.
class MapTransformer {
 public:
  MapTransformer(const Scope& scope, int64_t channels, const MapTransformerOptions& options);
  Tensor operator()(const Tensor& x, const Tensor& text, const Tensor& text_mask, ForwardContext& context) const;

 private:
  struct Layer {
    Layer(const Scope& scope, int64_t width, const MapTransformerOptions& options);
    Tensor operator()(Tensor x, const Tensor& text, const Tensor& text_mask, ForwardContext& context) const;
    bool only_cross_attention;
    LayerNorm norm1, norm2, norm3;
    DiffusionAttention attn1, attn2;
    Linear gate, out;
  };
  GroupNorm norm_;
  std::optional<Linear> linear_in_, linear_out_;
  std::optional<Convolution> conv_in_, conv_out_;
  std::vector<Layer> layers_;
};

}  // namespace transom
