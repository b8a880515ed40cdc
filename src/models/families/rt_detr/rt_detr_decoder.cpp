// SPDX-License-Identifier: Apache-2.0
#include "models/families/rt_detr/rt_detr_decoder.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/families/rt_detr/rt_detr_queries.h"
#include "models/nn/weight.h"

namespace transom {
namespace {

DetrLayerShape rt_detr_decoder_shape(const RTDetrConfig& c) {
  return {.width = c.d_model,
          .heads = c.decoder_attention_heads,
          .inner = c.decoder_ffn_dim,
          .activation = c.decoder_activation_function,
          .dropout = c.dropout,
          .attention_dropout = c.attention_dropout,
          .activation_dropout = c.activation_dropout,
          .deviation = c.initializer_range,
          .epsilon = c.layer_norm_eps};
}

}  // namespace

std::vector<float> first_looked_at_offsets(int64_t heads, int64_t maps, int64_t points) {
  std::vector<float> values;
  for (int64_t head = 0; head < heads; ++head) {
    const float angle =
        static_cast<float>(head) * static_cast<float>(2 * std::numbers::pi / static_cast<double>(heads));
    const float x = std::cos(angle), y = std::sin(angle), most = std::max(std::abs(x), std::abs(y));
    for (int64_t map = 0; map < maps; ++map)
      for (int64_t point = 1; point <= points; ++point)
        for (const float part : {x, y}) values.push_back(part / most * static_cast<float>(point));
  }
  return values;
}

double glorot_deviation(int64_t in, int64_t out) { return std::sqrt(2 / static_cast<double>(in + out)); }

RTDetrLinear::RTDetrLinear(const Scope& scope, int64_t in, int64_t out, double deviation, const Initial& bias)
    : path_(scope.path()),
      weight_(scope.parameter("weight", {out, in}, Initial::normal(deviation))),
      bias_(scope.parameter("bias", {out}, bias)) {
  weight_->use = Parameter::Use::kLinear;
}

Tensor RTDetrLinear::operator()(const Tensor& x, ForwardContext& context) const {
  const ModuleScope module(path_);
  return linear(x, *weight_, bias_->value, context);
}

class RTDetrCrossAttention {
 public:
  RTDetrCrossAttention(const Scope& scope, const RTDetrConfig& c)
      : path_(scope.path()),
        heads_(c.decoder_attention_heads),
        maps_(c.num_feature_levels),
        points_(c.decoder_n_points),
        scale_(c.offset_scale),
        nearest_(c.nearest_places),
        sampling_offsets_(scope / "sampling_offsets", c.d_model, 2 * places(), 0,
                          Initial::given(first_looked_at_offsets(heads_, maps_, points_))),
        attention_weights_(scope / "attention_weights", c.d_model, places(), {.deviation = 0}),
        value_proj_(scope / "value_proj", c.d_model, c.d_model, {.deviation = glorot_deviation(c.d_model, c.d_model)}),
        output_proj_(scope / "output_proj", c.d_model, c.d_model,
                     {.deviation = glorot_deviation(c.d_model, c.d_model)}) {
    if (c.second) scope.derived("n_points_scale");
  }

  // Queries [B, Q, D] with boxes f32 [B, Q, 4].
  Tensor operator()(const Tensor& queries, const Tensor& boxes, const RTDetrMemory& memory,
                    ForwardContext& context) const {
    const int64_t B = queries.dim(0), Q = queries.dim(1), D = queries.dim(2), each = maps_ * points_;
    const Tensor values = reshape(value_proj_(memory.places, context), {B, memory.places.dim(1), heads_, D / heads_});
    const DType wide = boxes.dtype();
    const Tensor offsets = reshape(cast(sampling_offsets_(queries, context), wide), {B, Q, heads_, each, 2});
    const Tensor weights =
        softmax(reshape(cast(attention_weights_(queries, context), wide), {B, Q, heads_, each}), context.computing);
    const auto beside = [&](int64_t begin) { return reshape(slice(boxes, 2, begin, begin + 2), {B, Q, 1, 1, 2}); };
    const Tensor places = beside(0) + offsets * (scale_ / static_cast<double>(points_)) * beside(2);
    Tensor seen;
    {
      const ModuleScope module(path_);
      seen = deformable_attention(
          values, places, weights,
          {.heights = memory.heights, .widths = memory.widths, .points = points_, .nearest = nearest_});
    }
    return output_proj_(reshape(seen, {B, Q, D}), context);
  }

 private:
  int64_t places() const { return heads_ * maps_ * points_; }

  std::string path_;
  int64_t heads_, maps_, points_;
  double scale_;
  bool nearest_;
  RTDetrLinear sampling_offsets_;
  Linear attention_weights_, value_proj_, output_proj_;
};

class RTDetrDecoderLayer {
 public:
  RTDetrDecoderLayer(const Scope& scope, const RTDetrConfig& c)
      : self_attn_(scope / "self_attn", rt_detr_decoder_shape(c)),
        self_attn_layer_norm_(scope / "self_attn_layer_norm", c.d_model, c.layer_norm_eps),
        encoder_attn_(scope / "encoder_attn", c),
        encoder_attn_layer_norm_(scope / "encoder_attn_layer_norm", c.d_model, c.layer_norm_eps),
        feed_forward_(scope, rt_detr_decoder_shape(c)),
        final_layer_norm_(scope / "final_layer_norm", c.d_model, c.layer_norm_eps),
        dropout_(c.dropout) {}
  Tensor operator()(const Tensor& x, const Tensor& positions, const Tensor& boxes, const Tensor& mask,
                    const RTDetrMemory& memory, ForwardContext& context) const {
    const Tensor placed = x + positions;
    const Tensor among =
        self_attn_layer_norm_(x + dropout_(self_attn_(placed, placed, x, mask, context), context), context);
    const Tensor seen = encoder_attn_layer_norm_(
        among + dropout_(encoder_attn_(among + positions, boxes, memory, context), context), context);
    return final_layer_norm_(seen + feed_forward_(seen, context), context);
  }

 private:
  DetrAttention self_attn_;
  LayerNorm self_attn_layer_norm_;
  RTDetrCrossAttention encoder_attn_;
  LayerNorm encoder_attn_layer_norm_;
  DetrFeedForward feed_forward_;
  LayerNorm final_layer_norm_;
  Dropout dropout_;
};

RTDetrDecoder::RTDetrDecoder(const Scope& scope, const RTDetrConfig& c, bool has_heads)
    : query_pos_head_(scope / "query_pos_head", 4, 2 * c.d_model, c.d_model, 2, c.initializer_range) {
  for (int64_t i = 0; i < c.decoder_layers; ++i) layers_.emplace_back(scope / "layers" / i, c);
  for (int64_t i = 0; has_heads && i < c.decoder_layers; ++i) {
    class_embed_.emplace_back(scope / "class_embed" / i, c.d_model, c.num_labels,
                              glorot_deviation(c.d_model, c.num_labels), Initial::constant(c.first_bias));
    bbox_embed_.emplace_back(scope / "bbox_embed" / i, c.d_model, 4, 3, c.initializer_range);
  }
}

RTDetrDecoder::~RTDetrDecoder() = default;

RTDetrDecoded RTDetrDecoder::operator()(const Tensor& queries, const Tensor& boxes, const Tensor& mask,
                                        const RTDetrMemory& memory, ForwardContext& context) const {
  RTDetrDecoded decoded;
  Tensor x = queries, at = sigmoid(boxes);
  decoded.boxes = at;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Tensor positions = query_pos_head_(cast(at, x.dtype()), context);
    x = layers_[i](x, positions, at, mask, memory, context);
    decoded.states.push_back(x);
    if (class_embed_.empty()) continue;
    const Tensor corrected = sigmoid(cast(bbox_embed_[i](x, context), DType::kFloat32) + rt_detr_inverse_sigmoid(at));
    decoded.heads.push_back({class_embed_[i](x, context), corrected});
    at = corrected.detach();
  }
  return decoded;
}

}  // namespace transom
