// SPDX-License-Identifier: Apache-2.0
#include "models/families/blip/blip_parts.h"

#include <cmath>

#include "base/error.h"
#include "models/nn/attention/attention.h"

namespace transom {
namespace {

constexpr char kBlipVision[] =
    R"({"hidden_act": "gelu", "image_size": 384, "patch_size": 16, "initializer_range": 1e-10})";
// Of types of tokens there are none.
constexpr char kBlipText[] = R"({"vocab_size": 30524, "num_attention_heads": 8, "hidden_dropout_prob": 0,
  "attention_probs_dropout_prob": 0, "is_decoder": true, "type_vocab_size": 1})";

Tensor unchanged(const Tensor& x, ForwardContext&) { return x; }

}  // namespace

BlipConfig::BlipConfig(const Config& config)
    : vision(with_defaults(config.get_object("vision_config"), kBlipVision)),
      text(with_defaults(config.get_object("text_config"), kBlipText)),
      bos_token_id(config.get_object("text_config").get_int("bos_token_id", 30522)),
      sep_token_id(config.get_object("text_config").get_int("sep_token_id", 102)) {
  const Config words = with_defaults(config.get_object("text_config"), kBlipText);
  refuse_unless(words, "is_decoder", "true");
  if (const double smoothing = words.get_float("label_smoothing", 0); smoothing != 0)
    fail(ErrorKind::kUnsupported, "{}: label_smoothing: expected 0, found {}", words.where(), smoothing);
  // Either of the two ties the head to the words.
  text.tie_word_embeddings |= config.get_bool("tie_word_embeddings", true);
  // That of the text counts; the others are of some classes.
  for (const char* read : {"label_smoothing", "image_text_hidden_size", "projection_dim", "logit_scale_init_value"})
    config.get_json(read);
  positive(words, "hidden_size", 768, int64_t{1} << 20);
  for (const int64_t token : {bos_token_id, sep_token_id})
    if (token < 0 || token >= text.vocab_size)
      fail("{}: bos_token_id and sep_token_id: expected numbers below vocab_size = {}, found {}", words.where(),
           text.vocab_size, token);
}

BlipVisionLayer::BlipVisionLayer(const Scope& scope, const CLIPVisionConfig& c)
    : path_(scope.path()),
      heads_(c.num_attention_heads),
      activation_(c.hidden_act),
      qkv_(scope / "self_attn" / "qkv", c.hidden_size, 3 * c.hidden_size, {.deviation = c.initializer_range}),
      projection_(scope / "self_attn" / "projection", c.hidden_size, c.hidden_size, {.deviation = c.initializer_range}),
      layer_norm1_(scope / "layer_norm1", c.hidden_size, c.layer_norm_eps),
      fc1_(scope / "mlp" / "fc1", c.hidden_size, c.intermediate_size, {.deviation = c.initializer_range}),
      fc2_(scope / "mlp" / "fc2", c.intermediate_size, c.hidden_size, {.deviation = c.initializer_range}),
      layer_norm2_(scope / "layer_norm2", c.hidden_size, c.layer_norm_eps),
      attention_dropout_(c.attention_dropout) {}

Tensor BlipVisionLayer::operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
  Tensor mixed;
  {
    const ModuleScope module(path_ + ".self_attn");
    const Tensor all = qkv_(layer_norm1_(x, context), context);
    const int64_t D = x.dim(2);
    mixed = multi_head_attention(slice(all, 2, 0, D), slice(all, 2, D, 2 * D), slice(all, 2, 2 * D, 3 * D), heads_,
                                 mask, attention_dropout_, context);
  }
  const Tensor h = projection_(mixed, context) + x;
  return fc2_(activation(activation_, fc1_(layer_norm2_(h, context), context)), context) + h;
}

BlipVisionTower::BlipVisionTower(const Scope& scope, const CLIPVisionConfig& c)
    : c_(c),
      grid_(patch_grid(c.image_size, c.patch_size)),
      class_embedding_(
          scope.parameter("embeddings.class_embedding", {1, 1, c.hidden_size}, Initial::normal(c.initializer_range))),
      position_embedding_(scope.parameter("embeddings.position_embedding", {1, 1 + grid_[0] * grid_[1], c.hidden_size},
                                          Initial::normal(c.initializer_range))),
      patch_embedding_(scope / "embeddings" / "patch_embedding", c.num_channels, c.hidden_size, c.patch_size,
                       c.initializer_range),
      post_layernorm_(scope / "post_layernorm", c.hidden_size, c.layer_norm_eps) {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layers" / i, c);
}

// The pooled state is normed twice, as the checkpoints were trained.
CLIPTowerOutput BlipVisionTower::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  const Tensor& image = image_input(inputs, c_.num_channels);
  const Tensor patches = patch_embedding_(image, context);
  const int64_t B = patches.dim(0), D = patches.dim(2);
  const Tensor first = broadcast_to(cast(class_embedding_->value, patches.dtype()), {B, 1, D});
  const Tensor x = concatenate({first, patches}, 1) + cast(positions(size_of(image), context), patches.dtype());
  EncoderOutput encoded = through_layers(layers_, x, Tensor(), context);
  const Tensor hidden = post_layernorm_(encoded.last_hidden_state, context);
  return {hidden, post_layernorm_(squeeze(slice(hidden, 1, 0, 1), 1), context), std::move(encoded.hidden_states)};
}

Tensor BlipVisionTower::positions(Extents size, const ForwardContext& context) const {
  if (!context.interpolate_pos_encoding && size != c_.image_size)
    fail("pixel_values: expected images of {}x{}, found {}x{}; interpolate_pos_encoding admits other sizes",
         c_.image_size[0], c_.image_size[1], size[0], size[1]);
  const Extents grid = patch_grid(size, c_.patch_size);
  if (size == c_.image_size || (grid[0] * grid[1] == grid_[0] * grid_[1] && size[0] == size[1]))
    return position_embedding_->value;
  return interpolated_positions(position_embedding_->value, 1, grid, context.computing);
}

BlipTextAttention::BlipTextAttention(const Scope& scope, const BertConfig& c, int64_t source_width)
    : path_(scope.path() + ".self"),
      heads_(c.num_attention_heads),
      scale_(1 / std::sqrt(static_cast<double>(c.hidden_size / c.num_attention_heads))),
      query_(scope / "self" / "query", c.hidden_size, c.hidden_size, c.new_weights()),
      key_(scope / "self" / "key", source_width, c.hidden_size, c.new_weights()),
      value_(scope / "self" / "value", source_width, c.hidden_size, c.new_weights()),
      dense_(scope / "output" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
      norm_(scope / "output" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
      attention_dropout_(c.attention_probs_dropout_prob),
      dropout_(c.hidden_dropout_prob) {}

Tensor BlipTextAttention::both_ways(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
  Tensor mixed;
  {
    const ModuleScope module(path_);
    mixed = multi_head_attention(query_(x, context), key_(x, context), value_(x, context), heads_, mask,
                                 attention_dropout_, context);
  }
  return behind(mixed, x, context);
}

Tensor BlipTextAttention::causal(int64_t layer, const Tensor& x, const DecoderInputs& in,
                                 ForwardContext& context) const {
  Tensor mixed;
  {
    const ModuleScope module(path_);
    mixed = cached_attention(layer, heads(query_(x, context)), heads(key_(x, context)), heads(value_(x, context)),
                             in.bias, {.scale = scale_, .causal = in.causal}, attention_dropout_, context);
  }
  return behind(mixed, x, context);
}

Tensor BlipTextAttention::across(int64_t layer, const Tensor& x, const EncodedSource& source,
                                 ForwardContext& context) const {
  Tensor mixed;
  {
    const ModuleScope module(path_);
    const KeysAndValues seen = source_keys(layer, source, context, [&](const Tensor& states) {
      return KeysAndValues{heads(key_(states, context)), heads(value_(states, context))};
    });
    mixed = attention_to_source(heads(query_(x, context)), seen, source.mask, scale_, attention_dropout_, context);
  }
  return behind(mixed, x, context);
}

Tensor BlipTextAttention::behind(const Tensor& mixed, const Tensor& x, ForwardContext& context) const {
  return norm_(dropout_(dense_(mixed, context), context) + x, context);
}

BlipTextLayer::BlipTextLayer(const Scope& scope, const BlipConfig& c, int64_t layer)
    : path_(scope.path()),
      layer_(layer),
      activation_(c.text.hidden_act),
      attention_(scope / "attention", c.text, c.text.hidden_size),
      crossattention_(scope / "crossattention", c.text, c.vision.hidden_size),
      intermediate_(scope / "intermediate" / "dense", c.text.hidden_size, c.text.intermediate_size,
                    c.text.new_weights()),
      output_(scope / "output" / "dense", c.text.intermediate_size, c.text.hidden_size, c.text.new_weights()),
      output_norm_(scope / "output" / "LayerNorm", c.text.hidden_size, c.text.layer_norm_eps),
      dropout_(c.text.hidden_dropout_prob) {}

Tensor BlipTextLayer::reading(const Tensor& x, const Tensor& mask, const EncodedSource& source,
                              ForwardContext& context) const {
  const ModuleScope module(path_);
  const Tensor h = attention_.both_ways(x, mask, context);
  return transformed(source.states.defined() ? crossattention_.across(layer_, h, source, context) : h, context);
}

Tensor BlipTextLayer::writing(const Tensor& x, const DecoderInputs& in, const EncodedSource& source,
                              ForwardContext& context) const {
  const ModuleScope module(path_);
  const Tensor h = attention_.causal(layer_, x, in, context);
  return transformed(crossattention_.across(layer_, h, source, context), context);
}

Tensor BlipTextLayer::transformed(const Tensor& x, ForwardContext& context) const {
  const Tensor wide = activation(activation_, intermediate_(x, context));
  return output_norm_(dropout_(output_(wide, context), context) + x, context);
}

BlipText::BlipText(const Scope& scope, const BlipConfig& c)
    : max_positions_(c.text.max_position_embeddings),
      word_embeddings_(scope / "embeddings" / "word_embeddings", c.text.vocab_size, c.text.hidden_size,
                       c.text.initializer_range, c.text.pad_token_id.value_or(-1)),
      position_embeddings_(scope / "embeddings" / "position_embeddings", c.text.max_position_embeddings,
                           c.text.hidden_size, c.text.initializer_range),
      norm_(scope / "embeddings" / "LayerNorm", c.text.hidden_size, c.text.layer_norm_eps),
      dropout_(c.text.hidden_dropout_prob) {
  for (int64_t i = 0; i < c.text.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c, i);
}

Tensor BlipText::embedded(const Tensor& ids, const Tensor& embeds, const Tensor& positions,
                          ForwardContext& context) const {
  const Tensor words = embeds.defined() ? embeds : word_embeddings_(ids, context);
  return dropout_(norm_(words + position_embeddings_(positions, context), context), context);
}

DecoderOutput BlipText::read(const NamedTensors& inputs, const EncodedSource& source, ForwardContext& context) const {
  const EncoderInputs in = encoder_inputs(inputs, max_positions_);
  return through_decoder(
      layers_, embedded(in.input_ids, in.inputs_embeds, in.position_ids, context), context, unchanged,
      [&](const BlipTextLayer& layer, const Tensor& x) { return layer.reading(x, in.mask, source, context); });
}

DecoderOutput BlipText::write(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const {
  return through_decoder(
      layers_, embedded(in.input_ids, in.inputs_embeds, in.position_ids, context), context, unchanged,
      [&](const BlipTextLayer& layer, const Tensor& x) { return layer.writing(x, in, source, context); });
}

}  // namespace transom
