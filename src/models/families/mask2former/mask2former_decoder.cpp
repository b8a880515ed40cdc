// SPDX-License-Identifier: Apache-2.0
#include "models/families/mask2former/mask2former_decoder.h"

#include "models/families/detr/detr_layers.h"
#include "models/families/rt_detr/rt_detr_decoder.h"
#include "models/nn/vision/upsampling.h"

namespace transom {
namespace {

constexpr double kDecoderEpsilon = 1e-5;
constexpr int64_t kMaskLayers = 3;

DetrLayerShape mask2former_layer_shape(const Mask2FormerConfig& c, int64_t out) {
  return {.width = c.hidden_dim,
          .heads = c.num_attention_heads,
          .inner = c.dim_feedforward,
          .activation = c.activation_function,
          .dropout = c.dropout,
          .attention_dropout = c.dropout,
          .activation_dropout = c.dropout,
          .deviation = c.init_xavier_std * glorot_deviation(c.hidden_dim, out),
          .epsilon = kDecoderEpsilon};
}

// Attention as torch.nn.MultiheadAttention has it: one matrix of queries, keys and values.
class JoinedAttention {
 public:
  JoinedAttention(const Scope& scope, const Mask2FormerConfig& c)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        width_(c.hidden_dim),
        in_proj_weight_(scope.parameter("in_proj_weight", {3 * width_, width_},
                                        Initial::normal(c.init_xavier_std * glorot_deviation(width_, 3 * width_)))),
        in_proj_bias_(scope.parameter("in_proj_bias", {3 * width_}, Initial::zeros())),
        out_proj_(scope / "out_proj", width_, width_,
                  {.deviation = c.init_xavier_std * glorot_deviation(width_, width_)}),
        dropout_(c.dropout) {}
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                    ForwardContext& context) const {
    Tensor attended;
    {
      const ModuleScope module(path_);
      attended = multi_head_attention(projected(query, 0, context), projected(key, 1, context),
                                      projected(value, 2, context), heads_, mask, dropout_, context);
    }
    return out_proj_(attended, context);
  }

 private:
  Tensor projected(const Tensor& x, int64_t part, const ForwardContext& context) const {
    const auto rows = [&](const Tensor& all) { return slice(all, 0, part * width_, (part + 1) * width_); };
    return linear(x, rows(in_proj_weight_->value), rows(in_proj_bias_->value), context.computing);
  }

  std::string path_;
  int64_t heads_, width_;
  std::shared_ptr<Parameter> in_proj_weight_, in_proj_bias_;
  Linear out_proj_;
  Dropout dropout_;
};

// Where a query may look on a map, as what is added to scores, f32 [B, 1, Q, h w]: where its mask is more likely than
// not, and everywhere where that is nowhere. No gradient goes through it.
Tensor mask_of_queries(const Tensor& masks, int64_t height, int64_t width, const ForwardContext& context) {
  const Tensor chances =
      sigmoid(resize_bilinear(cast(masks.detach(), DType::kFloat32), height, width, false, context.computing));
  const Tensor flat = unsqueeze(flatten(chances, 2, 3), 1), half = full(flat.shape(), 0.5);
  const Tensor likely = greater_equal(flat, half);
  const Tensor nowhere = less(reduce_max(flat, {3}, true), full({flat.dim(0), 1, flat.dim(2), 1}, 0.5));
  return additive_where(logical_or(likely, broadcast_to(nowhere, flat.shape())));
}

}  // namespace

class Mask2FormerDecoderLayer {
 public:
  Mask2FormerDecoderLayer(const Scope& scope, const Mask2FormerConfig& c)
      : norms_first_(c.pre_norm),
        cross_attn_(scope / "cross_attn", c),
        cross_attn_layer_norm_(scope / "cross_attn_layer_norm", c.hidden_dim, kDecoderEpsilon),
        self_attn_(scope / "self_attn", mask2former_layer_shape(c, c.hidden_dim)),
        self_attn_layer_norm_(scope / "self_attn_layer_norm", c.hidden_dim, kDecoderEpsilon),
        feed_forward_(scope, mask2former_layer_shape(c, c.dim_feedforward)),
        final_layer_norm_(scope / "final_layer_norm", c.hidden_dim, kDecoderEpsilon),
        dropout_(c.dropout) {}
  // `keys`: the values with the positions of their places.
  Tensor operator()(const Tensor& x, const Tensor& queries, const Tensor& keys, const Tensor& values,
                    const Tensor& mask, ForwardContext& context) const {
    const Tensor seen = detr_residual(x, cross_attn_layer_norm_, norms_first_, context, [&](const Tensor& in) {
      return dropout_(cross_attn_(in + queries, keys, values, mask, context), context);
    });
    const Tensor among = detr_residual(seen, self_attn_layer_norm_, norms_first_, context, [&](const Tensor& in) {
      const Tensor placed = in + queries;
      return dropout_(self_attn_(placed, placed, in, Tensor(), context), context);
    });
    return detr_residual(among, final_layer_norm_, norms_first_, context,
                         [&](const Tensor& in) { return feed_forward_(in, context); });
  }

 private:
  bool norms_first_;
  JoinedAttention cross_attn_;
  LayerNorm cross_attn_layer_norm_;
  DetrAttention self_attn_;
  LayerNorm self_attn_layer_norm_;
  DetrFeedForward feed_forward_;
  LayerNorm final_layer_norm_;
  Dropout dropout_;
};

Mask2FormerDecoder::Mask2FormerDecoder(const Scope& scope, const Mask2FormerConfig& c)
    : c_(c),
      queries_embedder_(scope / "queries_embedder", c.num_queries, c.hidden_dim, 1),
      queries_features_(scope / "queries_features", c.num_queries, c.hidden_dim, 1),
      level_embed_(scope / "level_embed", kMask2FormerLevels, c.hidden_dim, 1),
      layernorm_(scope / "decoder" / "layernorm", c.hidden_dim, kDecoderEpsilon) {
  if (c.feature_size != c.hidden_dim || c.enforce_input_projection)
    for (int64_t i = 0; i < kMask2FormerLevels; ++i)
      input_projections_.emplace_back(
          scope / "input_projections" / i, c.feature_size, c.hidden_dim, Axes{1, 1},
          Convolution::Options{.deviation = c.init_xavier_std * glorot_deviation(c.feature_size, c.hidden_dim)});
  for (int64_t i = 0; i + 1 < c.predictions; ++i) layers_.emplace_back(scope / "decoder" / "layers" / i, c);
  const Scope masks = scope / "decoder" / "mask_predictor" / "mask_embedder";
  for (int64_t i = 0; i < kMaskLayers; ++i)
    mask_embedder_.push_back(
        torch_linear(masks / i / int64_t{0}, c.hidden_dim, i + 1 < kMaskLayers ? c.hidden_dim : c.mask_feature_size));
}

Mask2FormerDecoder::~Mask2FormerDecoder() = default;

Mask2FormerPrediction Mask2FormerDecoder::prediction(const Tensor& x, const Tensor& features,
                                                     ForwardContext& context) const {
  const Tensor states = layernorm_(x, context);
  Tensor vectors = states;
  for (size_t i = 0; i < mask_embedder_.size(); ++i) {
    vectors = mask_embedder_[i](vectors, context);
    if (i + 1 < mask_embedder_.size()) vectors = relu(vectors);
  }
  return {states, dot_general(vectors, cast(features, vectors.dtype()), {{0}, {0}, {2}, {1}}, context.computing)};
}

Mask2FormerDecoded Mask2FormerDecoder::operator()(const Mask2FormerPixels& pixels, ForwardContext& context) const {
  const int64_t B = pixels.features.dim(0), Q = c_.num_queries, D = c_.hidden_dim;
  const Tensor levels = level_embed_(iota({kMask2FormerLevels}, 0), context);
  std::vector<Tensor> keys, values;
  for (size_t i = 0; i < pixels.maps.size(); ++i) {
    const Tensor map = input_projections_.empty() ? pixels.maps[i] : input_projections_[i](pixels.maps[i], context);
    const auto level = static_cast<int64_t>(i);
    const Tensor value = permute(flatten(map, 2, 3), {0, 2, 1}) + cast(slice(levels, 0, level, level + 1), map.dtype());
    values.push_back(value);
    keys.push_back(value + cast(mask2former_positions(map.dim(2), map.dim(3), D), map.dtype()));
  }
  const auto of_all = [&](const Embedding& table) {
    return broadcast_to(unsqueeze(table(iota({Q}, 0), context), 0), {B, Q, D});
  };
  const Tensor queries = of_all(queries_embedder_);
  Mask2FormerDecoded decoded;
  Tensor x = of_all(queries_features_);
  decoded.states = {x};
  decoded.predictions = {prediction(x, pixels.features, context)};
  for (size_t i = 0; i < layers_.size(); ++i) {
    const size_t level = i % values.size();
    const Tensor& map = pixels.maps[level];
    const Tensor mask = mask_of_queries(decoded.predictions.back().masks, map.dim(2), map.dim(3), context);
    x = layers_[i](x, queries, keys[level], values[level], mask, context);
    decoded.states.push_back(x);
    decoded.predictions.push_back(prediction(x, pixels.features, context));
  }
  return decoded;
}

}  // namespace transom
