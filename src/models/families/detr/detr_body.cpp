// SPDX-License-Identifier: Apache-2.0
#include "models/families/detr/detr_body.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "base/error.h"
#include "models/families/detr/detr_layers.h"
#include "transom/ops.h"

namespace transom {
namespace {

// The places of one axis that torch's interpolate with mode "nearest" takes, computed in float as there.
Tensor nearest_places(int64_t from, int64_t to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < to; ++i)
    places.push_back(std::min(static_cast<int64_t>(std::floor(static_cast<float>(i) * scale)), from - 1));
  return Tensor::from(places, {to});
}

// Which places of a map stand for pixels of the picture, f32 [B, h, w]: all without a pixel_mask.
Tensor mask_of_map(const NamedTensors& inputs, const Tensor& map) {
  const Tensor mask = inputs.find("pixel_mask"), &image = inputs.at("pixel_values");
  const int64_t B = map.dim(0), h = map.dim(2), w = map.dim(3);
  if (!mask.defined()) return full({B, h, w}, 1);
  if (mask.shape() != Shape{image.dim(0), image.dim(2), image.dim(3)})
    fail("pixel_mask: expected {}, the rows and columns of pixel_values, found {}",
         to_string(Shape{image.dim(0), image.dim(2), image.dim(3)}), to_string(mask.shape()));
  const Tensor rows = gather(mask, nearest_places(image.dim(2), h), 1);
  const Tensor chosen = gather(rows, nearest_places(image.dim(3), w), 2);
  return cast(not_equal(chosen, full(chosen.shape(), 0, chosen.dtype())), DType::kFloat32);
}

// Sinusoids of a coordinate [B, h, w], which counts from 1 to its last: [B, h, w, width].
Tensor sinusoids(const Tensor& coordinate, const Tensor& last, int64_t width) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < width / 2; ++i)
    frequencies.push_back(std::pow(10000.0F, static_cast<float>(2 * i) / static_cast<float>(width)));
  const Tensor turns = coordinate / (last + 1e-6) * (2 * std::numbers::pi);
  const Tensor angles = unsqueeze(turns, 3) / Tensor::from(frequencies, {width / 2});
  Shape shape = turns.shape();
  shape.push_back(width);
  return reshape(concatenate({unsqueeze(sin(angles), 4), unsqueeze(cos(angles), 4)}, 4), shape);
}

DetrLayerShape detr_layer_shape(const DetrConfig& c, int64_t heads, int64_t inner) {
  return {.width = c.d_model,
          .heads = heads,
          .inner = inner,
          .activation = c.activation_function,
          .dropout = c.dropout,
          .attention_dropout = c.attention_dropout,
          .activation_dropout = c.activation_dropout,
          .deviation = c.init_std,
          .norms_first = c.norms_first};
}

}  // namespace

class DetrDecoderLayer {
 public:
  DetrDecoderLayer(const Scope& scope, const DetrLayerShape& s)
      : norms_first_(s.norms_first),
        self_attn_(scope / "self_attn", s),
        self_attn_layer_norm_(scope / "self_attn_layer_norm", s.width, s.epsilon),
        encoder_attn_(scope / "encoder_attn", s),
        encoder_attn_layer_norm_(scope / "encoder_attn_layer_norm", s.width, s.epsilon),
        feed_forward_(scope, s),
        final_layer_norm_(scope / "final_layer_norm", s.width, s.epsilon),
        dropout_(s.dropout) {}
  // `keys`: the memory with the positions of its places.
  Tensor operator()(const Tensor& x, const Tensor& queries, const Tensor& mask, const Tensor& memory,
                    const Tensor& keys, const Tensor& memory_mask, ForwardContext& context) const {
    const Tensor among = detr_residual(x, self_attn_layer_norm_, norms_first_, context, [&](const Tensor& in) {
      const Tensor placed = in + queries;
      return dropout_(self_attn_(placed, placed, in, mask, context), context);
    });
    const Tensor seen = detr_residual(among, encoder_attn_layer_norm_, norms_first_, context, [&](const Tensor& in) {
      return dropout_(encoder_attn_(in + queries, keys, memory, memory_mask, context), context);
    });
    return detr_residual(seen, final_layer_norm_, norms_first_, context,
                         [&](const Tensor& in) { return feed_forward_(in, context); });
  }

 private:
  bool norms_first_;
  DetrAttention self_attn_;
  LayerNorm self_attn_layer_norm_;
  DetrAttention encoder_attn_;
  LayerNorm encoder_attn_layer_norm_;
  DetrFeedForward feed_forward_;
  LayerNorm final_layer_norm_;
  Dropout dropout_;
};

// Where a place of the map is: sinusoids of its row and column, or learned vectors of both.
class DetrPositions {
 public:
  DetrPositions(const Scope& scope, const DetrConfig& c) : width_(c.d_model / 2) {
    if (!c.learned_positions) return;
    columns_.emplace(scope / "column_embeddings", kMostPlaces, width_, 0.3);
    rows_.emplace(scope / "row_embeddings", kMostPlaces, width_, 0.3);
  }
  Tensor operator()(const Tensor& mask, const ForwardContext& context) const {  // [B, h, w] -> [B, S, D]
    const int64_t B = mask.dim(0), h = mask.dim(1), w = mask.dim(2);
    if (!rows_) {
      const Tensor row = cumulative_sum(mask, 1), column = cumulative_sum(mask, 2);
      const Tensor vectors = concatenate(
          {sinusoids(row, slice(row, 1, h - 1, h), width_), sinusoids(column, slice(column, 2, w - 1, w), width_)}, 3);
      return reshape(vectors, {B, h * w, 2 * width_});
    }
    if (h > kMostPlaces || w > kMostPlaces)
      fail("pixel_values: {} x {} places have no position embeddings, of which there are {} x {}", h, w, kMostPlaces,
           kMostPlaces);
    const Tensor across = (*columns_)(iota({w}, 0), context), down = (*rows_)(iota({h}, 0), context);
    const Tensor both = concatenate(
        {broadcast_to(unsqueeze(across, 0), {h, w, width_}), broadcast_to(unsqueeze(down, 1), {h, w, width_})}, 2);
    return broadcast_to(reshape(both, {1, h * w, 2 * width_}), {B, h * w, 2 * width_});
  }

 private:
  static constexpr int64_t kMostPlaces = 50;  // of rows and of columns
  int64_t width_;
  std::optional<Embedding> columns_, rows_;
};

class DetrLayers {
 public:
  DetrLayers(const Scope& scope, const DetrConfig& c)
      : c_(c), decoder_norm_(scope / "decoder" / "layernorm", c.d_model, 1e-5), dropout_(c.dropout) {
    const DetrLayerShape encoder = detr_layer_shape(c, c.encoder_attention_heads, c.encoder_ffn_dim),
                         decoder = detr_layer_shape(c, c.decoder_attention_heads, c.decoder_ffn_dim);
    for (int64_t i = 0; i < c.encoder_layers; ++i) encoder_.emplace_back(scope / "encoder" / "layers" / i, encoder);
    if (c.norms_first) encoder_norm_.emplace(scope / "encoder" / "layernorm", c.d_model, 1e-5);
    for (int64_t i = 0; i < c.decoder_layers; ++i) decoder_.emplace_back(scope / "decoder" / "layers" / i, decoder);
  }

  void encode(Tensor x, const Tensor& positions, DetrOutput& output, ForwardContext& context) const {
    x = dropout_(x, context);
    for (const DetrEncoderLayer& layer : encoder_) {
      if (context.output_hidden_states) output.encoder_states.push_back(x);
      x = layer(x, positions, output.mask, context);
    }
    if (context.output_hidden_states) output.encoder_states.push_back(x);
    output.memory = encoder_norm_ ? (*encoder_norm_)(x, context) : x;
  }

  void decode(Tensor x, const Tensor& queries, const Tensor& query_mask, const Tensor& positions, DetrOutput& output,
              ForwardContext& context) const {
    const Tensor keys = output.memory + positions;
    for (const DetrDecoderLayer& layer : decoder_) {
      if (context.output_hidden_states) output.decoder_states.push_back(x);
      x = layer(x, queries, query_mask, output.memory, keys, output.mask, context);
      // With auxiliary losses each layer reads what is normed already, as in Transformers.
      if (c_.auxiliary_loss) output.by_layer.push_back(x = decoder_norm_(x, context));
    }
    output.last_hidden_state = decoder_norm_(x, context);
    if (context.output_hidden_states) output.decoder_states.push_back(c_.norms_first ? output.last_hidden_state : x);
  }

 private:
  DetrConfig c_;
  std::vector<DetrEncoderLayer> encoder_;
  std::optional<LayerNorm> encoder_norm_;
  std::vector<DetrDecoderLayer> decoder_;
  LayerNorm decoder_norm_;
  Dropout dropout_;
};

DetrBody::DetrBody(const Config& config, const DetrConfig& c, const Scope& scope)
    : c_(c),
      backbone_(config, scope / "backbone" / "conv_encoder" / "model"),
      // Where Transformers has the module.
      positions_(
          std::make_unique<DetrPositions>((c.norms_first ? scope / "backbone" : scope) / "position_embedding", c)),
      input_projection_(scope / "input_projection", backbone_.widths().back(), c.d_model, {1, 1},
                        {.deviation = c.init_std}),
      query_position_embeddings_(scope / "query_position_embeddings", c.num_queries, c.d_model, c.init_std),
      layers_(std::make_unique<DetrLayers>(scope, c)) {}

DetrBody::~DetrBody() = default;

DetrOutput DetrBody::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  DetrOutput output;
  output.maps = backbone_(image_input(inputs, backbone_.num_channels()), context);
  const Tensor& map = output.maps.back();
  const int64_t B = map.dim(0), places = map.dim(2) * map.dim(3);
  const Tensor mask = mask_of_map(inputs, map);
  output.projected = input_projection_(map, context);
  const DType dtype = output.projected.dtype();
  if (inputs.find("pixel_mask").defined()) output.mask = additive_mask(reshape(mask, {B, places}));
  const Tensor positions = cast((*positions_)(mask, context), dtype);
  layers_->encode(permute(flatten(output.projected, 2, 3), {0, 2, 1}), positions, output, context);

  const Tensor queries = unsqueeze(query_position_embeddings_(iota({c_.num_queries}, 0), context), 0);
  const Shape shape{B, c_.num_queries, c_.d_model};
  const Tensor given = inputs.find("decoder_inputs_embeds");
  if (given.defined() && given.shape() != shape)
    fail("decoder_inputs_embeds: expected {}, found {}", to_string(shape), to_string(given.shape()));
  layers_->decode(given.defined() ? cast(given, dtype) : full(shape, 0, dtype), cast(queries, dtype),
                  additive_mask(inputs.find("decoder_attention_mask")), positions, output, context);
  return output;
}

const std::vector<std::string>& detr_input_names() {
  static const std::vector<std::string> names = {"pixel_values", "pixel_mask", "decoder_attention_mask",
                                                 "decoder_inputs_embeds"};
  return names;
}

NamedTensors with_detr_states(NamedTensors outputs, const DetrOutput& output) {
  outputs.set("encoder_last_hidden_state", output.memory);
  for (size_t i = 0; i < output.decoder_states.size(); ++i)
    outputs.set("decoder_hidden_states." + std::to_string(i), output.decoder_states[i]);
  for (size_t i = 0; i < output.encoder_states.size(); ++i)
    outputs.set("encoder_hidden_states." + std::to_string(i), output.encoder_states[i]);
  return outputs;
}

}  // namespace transom
