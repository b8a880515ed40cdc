// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/blocks/image_attention.h"

#include "base/error.h"
#include "models/nn/attention/attention.h"

namespace transom {
namespace {

constexpr double kLayerEpsilon = 1e-5, kMapEpsilon = 1e-6;

Tensor places_of(const Tensor& map) {  // [B, C, H, W] -> [B, S, C]
  const int64_t B = map.dim(0), C = map.dim(1);
  return permute(reshape(map, {B, C, map.dim(2) * map.dim(3)}), {0, 2, 1});
}
Tensor map_of(const Tensor& places, const Tensor& like) {
  return reshape(permute(places, {0, 2, 1}), {like.dim(0), places.dim(2), like.dim(2), like.dim(3)});
}

std::string chosen_name(const Scope& scope, bool takes_old, const char* name, const char* old) {
  return takes_old && scope.holds(std::string(old) + ".weight") ? old : name;
}

int64_t heads_of_width(const Scope& scope, int64_t channels, int64_t head_width) {
  if (head_width < 1 || channels % head_width != 0)
    fail("{}: {} channels are not divisible into heads of {}: see attention_head_dim", scope.path(), channels,
         head_width);
  return channels / head_width;
}

}  // namespace

DiffusionAttention::DiffusionAttention(const Scope& scope, int64_t width, const Options& o)
    : path_(scope.path()),
      heads_(o.heads),
      to_q_(torch_linear(scope / chosen_name(scope, o.takes_old_names, "to_q", "query"), width, o.heads * o.head_width,
                         o.bias)),
      to_k_(torch_linear(scope / chosen_name(scope, o.takes_old_names, "to_k", "key"),
                         o.context_width ? o.context_width : width, o.heads * o.head_width, o.bias)),
      to_v_(torch_linear(scope / chosen_name(scope, o.takes_old_names, "to_v", "value"),
                         o.context_width ? o.context_width : width, o.heads * o.head_width, o.bias)),
      to_out_(torch_linear(scope / chosen_name(scope, o.takes_old_names, "to_out.0", "proj_attn"),
                           o.heads * o.head_width, width)),
      dropout_(o.dropout) {}

Tensor DiffusionAttention::operator()(const Tensor& x, const Tensor& of, const Tensor& mask,
                                      ForwardContext& context) const {
  const Tensor& seen = of.defined() ? of : x;
  Tensor attended;
  {
    const ModuleScope module(path_);
    attended = multi_head_attention(to_q_(x, context), to_k_(seen, context), to_v_(seen, context), heads_,
                                    additive_mask(mask), Dropout(0), context);
  }
  return dropout_(to_out_(attended, context), context);
}

MapAttention::MapAttention(const Scope& scope, int64_t channels, int64_t head_width, int64_t groups, double epsilon,
                           double output_scale)
    : output_scale_(output_scale),
      attention_(scope, channels,
                 {.heads = heads_of_width(scope, channels, head_width),
                  .head_width = head_width,
                  .bias = true,
                  .takes_old_names = true}) {
  if (groups > 0) group_norm_.emplace(scope / "group_norm", groups, channels, epsilon);
}

Tensor MapAttention::operator()(const Tensor& x, ForwardContext& context) const {
  const Tensor places = places_of(group_norm_ ? (*group_norm_)(x, context) : x);
  const Tensor sum = map_of(attention_(places, Tensor(), Tensor(), context), x) + x;
  return output_scale_ == 1 ? sum : sum * (1 / output_scale_);
}

MapTransformer::Layer::Layer(const Scope& scope, int64_t width, const MapTransformerOptions& o)
    : only_cross_attention(o.only_cross_attention),
      norm1(scope / "norm1", width, kLayerEpsilon),
      norm2(scope / "norm2", width, kLayerEpsilon),
      norm3(scope / "norm3", width, kLayerEpsilon),
      attn1(scope / "attn1", width,
            {.heads = o.heads,
             .head_width = width / o.heads,
             .context_width = o.only_cross_attention ? o.context_width : 0}),
      attn2(scope / "attn2", width,
            {.heads = o.heads, .head_width = width / o.heads, .context_width = o.context_width}),
      gate(torch_linear(scope / "ff" / "net" / 0 / "proj", width, 8 * width)),
      out(torch_linear(scope / "ff" / "net" / 2, 4 * width, width)) {}

Tensor MapTransformer::Layer::operator()(Tensor x, const Tensor& text, const Tensor& text_mask,
                                         ForwardContext& context) const {
  x = attn1(norm1(x, context), only_cross_attention ? text : Tensor(), Tensor(), context) + x;
  x = attn2(norm2(x, context), text, text_mask, context) + x;
  const Tensor both = gate(norm3(x, context), context);
  const int64_t inner = both.dim(2) / 2;
  return out(slice(both, 2, 0, inner) * gelu(slice(both, 2, inner, 2 * inner)), context) + x;
}

MapTransformer::MapTransformer(const Scope& scope, int64_t channels, const MapTransformerOptions& o)
    : norm_(scope / "norm", o.groups, channels, kMapEpsilon) {
  if (o.heads < 1 || channels / o.heads < 1)
    fail("{}: {} channels have no {} heads: see attention_head_dim", scope.path(), channels, o.heads);
  // As many heads as do not fill the channels are narrower together, as in diffusers.
  const int64_t width = channels / o.heads * o.heads;
  if (o.linear_projection) {
    linear_in_ = torch_linear(scope / "proj_in", channels, width);
    linear_out_ = torch_linear(scope / "proj_out", width, channels);
  } else {
    conv_in_ = torch_convolution(scope / "proj_in", channels, width, 1);
    conv_out_ = torch_convolution(scope / "proj_out", width, channels, 1);
  }
  for (int64_t i = 0; i < o.layers; ++i) layers_.emplace_back(scope / "transformer_blocks" / i, width, o);
}

Tensor MapTransformer::operator()(const Tensor& x, const Tensor& text, const Tensor& text_mask,
                                  ForwardContext& context) const {
  const Tensor normed = norm_(x, context);
  Tensor h = linear_in_ ? (*linear_in_)(places_of(normed), context) : places_of((*conv_in_)(normed, context));
  for (const Layer& layer : layers_) h = layer(h, text, text_mask, context);
  return x + (linear_out_ ? map_of((*linear_out_)(h, context), x) : (*conv_out_)(map_of(h, x), context));
}

}  // namespace transom
