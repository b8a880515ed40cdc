// SPDX-License-Identifier: Apache-2.0
#include "models/families/bart/bart_layers.h"

#include <cmath>

#include "base/error.h"

namespace transom {
namespace {

constexpr double kLayerEpsilon = 1e-5;

// A residual block: the norm stands before the layer or behind the sum.
template <typename Layer>
Tensor block(const Tensor& x, bool norm_before, const LayerNorm& norm, const Layer& layer, ForwardContext& context) {
  return norm_before ? x + layer(norm(x, context)) : norm(x + layer(x), context);
}

}  // namespace

BartConfig::BartConfig(const Config& given, const BartVariant& variant)
    : BartConfig(with_defaults(given, variant.defaults), variant, Read{}) {}

BartConfig::BartConfig(const Config& config, const BartVariant& variant, Read)
    : BartVariant(variant),
      vocab_size(config.get_int("vocab_size", 50265)),
      d_model(config.get_int("d_model", 1024)),
      encoder_layers(config.get_int("encoder_layers", 12)),
      encoder_attention_heads(config.get_int("encoder_attention_heads", 16)),
      encoder_ffn_dim(config.get_int("encoder_ffn_dim", 4096)),
      decoder_layers(config.get_int("decoder_layers", 12)),
      decoder_attention_heads(config.get_int("decoder_attention_heads", 16)),
      decoder_ffn_dim(config.get_int("decoder_ffn_dim", 4096)),
      max_position_embeddings(config.get_int("max_position_embeddings", 1024)),
      pad_token_id(padding_id(config, 1).value_or(-1)),
      eos_token_id(config.get_int("eos_token_id", 2)),
      decoder_start_token_id(config.get_int("decoder_start_token_id", 2)),
      dropout(config.get_float("dropout", 0.1)),
      attention_dropout(config.get_float("attention_dropout", 0)),
      activation_dropout(config.get_float("activation_dropout", 0)),
      classifier_dropout(config.get_float("classifier_dropout", 0)),
      encoder_layerdrop(config.get_float("encoder_layerdrop", 0)),
      decoder_layerdrop(config.get_float("decoder_layerdrop", 0)),
      init_std(config.get_float("init_std", 0.02)),
      activation_function(config.get_string("activation_function", "gelu")),
      problem_type(config.get_string("problem_type", "")),
      scale_embedding(config.get_bool("scale_embedding", false)),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", true)),
      num_labels(number_of_labels(config)) {
  const auto expect_divisor = [&](const char* field, int64_t heads) {
    if (heads <= 0 || d_model % heads != 0)
      fail("config.json: {} {} does not divide d_model {}", field, heads, d_model);
  };
  expect_divisor("encoder_attention_heads", encoder_attention_heads);
  expect_divisor("decoder_attention_heads", decoder_attention_heads);
  // Once these fields said which of the relatives a model is.
  const auto expect = [&](const char* field, bool value) { refuse_unless(config, field, value ? "true" : "false"); };
  expect("normalize_before", norm_before);
  // A family whose stacks end in a norm always has it: Transformers does not read this field.
  if (final_norm) config.get_bool("add_final_layer_norm", true);
  else expect("add_final_layer_norm", false);
  expect("add_bias_logits", false);
}

double BartConfig::embed_scale() const { return scale_embedding ? std::sqrt(static_cast<double>(d_model)) : 1.0; }

BartAttention::BartAttention(const Scope& scope, const BartConfig& c, int64_t heads, int64_t source_width)
    : path_(scope.path()),
      heads_(heads),
      scale_(1 / std::sqrt(static_cast<double>(c.d_model / heads))),
      k_proj_(scope / "k_proj", source_width > 0 ? source_width : c.d_model, c.d_model,
              {.bias = c.key_bias, .deviation = c.init_std}),
      v_proj_(scope / "v_proj", source_width > 0 ? source_width : c.d_model, c.d_model, c.new_weights()),
      q_proj_(scope / "q_proj", c.d_model, c.d_model, c.new_weights()),
      out_proj_(scope / "out_proj", c.d_model, c.d_model, c.new_weights()),
      dropout_(c.attention_dropout) {}

Tensor BartAttention::operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
  const ModuleScope module(path_);
  return out_proj_(attention(heads(q_proj_(x, context)), heads(k_proj_(x, context)), heads(v_proj_(x, context)), mask,
                             {.scale = scale_, .causal = false}, dropout_, context),
                   context);
}

Tensor BartAttention::causal(int64_t layer, const Tensor& x, const DecoderInputs& in, ForwardContext& context) const {
  const ModuleScope module(path_);
  return out_proj_(
      cached_attention(layer, heads(q_proj_(x, context)), heads(k_proj_(x, context)), heads(v_proj_(x, context)),
                       in.bias, {.scale = scale_, .causal = in.causal}, dropout_, context),
      context);
}

Tensor BartAttention::across(int64_t layer, const Tensor& x, const EncodedSource& source,
                             ForwardContext& context) const {
  const ModuleScope module(path_);
  const KeysAndValues seen = source_keys(layer, source, context, [&](const Tensor& states) {
    return KeysAndValues{heads(k_proj_(states, context)), heads(v_proj_(states, context))};
  });
  const Tensor q = heads(q_proj_(x, context));
  if (source.seen) source.seen->push_back(weights_on_source(q, seen.keys, source.mask, scale_, context.computing));
  return out_proj_(attention_to_source(q, seen, source.mask, scale_, dropout_, context), context);
}

BartFeedForward::BartFeedForward(const Scope& scope, const BartConfig& c, int64_t width)
    : activation_(c.activation_function),
      fc1_(scope / "fc1", c.d_model, width, c.new_weights()),
      fc2_(scope / "fc2", width, c.d_model, c.new_weights()),
      activation_dropout_(c.activation_dropout) {}

Tensor BartFeedForward::operator()(const Tensor& x, ForwardContext& context) const {
  return fc2_(activation_dropout_(activation(activation_, fc1_(x, context)), context), context);
}

BartEncoderLayer::BartEncoderLayer(const Scope& scope, const BartConfig& c)
    : path_(scope.path()),
      norm_before_(c.norm_before),
      self_attn_(scope / "self_attn", c, c.encoder_attention_heads),
      self_attn_layer_norm_(scope / "self_attn_layer_norm", c.d_model, kLayerEpsilon),
      feed_forward_(scope, c, c.encoder_ffn_dim),
      final_layer_norm_(scope / "final_layer_norm", c.d_model, kLayerEpsilon),
      dropout_(c.dropout),
      layerdrop_(c.encoder_layerdrop) {}

Tensor BartEncoderLayer::operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
  const ModuleScope module(path_);
  Tensor h = block(
      x, norm_before_, self_attn_layer_norm_,
      [&](const Tensor& y) { return dropout_(self_attn_(y, mask, context), context); }, context);
  h = block(
      h, norm_before_, final_layer_norm_, [&](const Tensor& y) { return dropout_(feed_forward_(y, context), context); },
      context);
  return layerdrop_(x, h, context);
}

BartDecoderLayer::BartDecoderLayer(const Scope& scope, const BartConfig& c, int64_t layer)
    : path_(scope.path()),
      layer_(layer),
      norm_before_(c.norm_before),
      self_attn_(scope / "self_attn", c, c.decoder_attention_heads),
      self_attn_layer_norm_(scope / "self_attn_layer_norm", c.d_model, kLayerEpsilon),
      encoder_attn_(scope / "encoder_attn", c, c.decoder_attention_heads, c.source_width),
      encoder_attn_layer_norm_(scope / "encoder_attn_layer_norm", c.d_model, kLayerEpsilon),
      feed_forward_(scope, c, c.decoder_ffn_dim),
      final_layer_norm_(scope / "final_layer_norm", c.d_model, kLayerEpsilon),
      dropout_(c.dropout),
      layerdrop_(c.decoder_layerdrop) {}

Tensor BartDecoderLayer::operator()(const Tensor& x, const DecoderInputs& in, const EncodedSource& source,
                                    ForwardContext& context) const {
  const ModuleScope module(path_);
  Tensor h = block(
      x, norm_before_, self_attn_layer_norm_,
      [&](const Tensor& y) { return dropout_(self_attn_.causal(layer_, y, in, context), context); }, context);
  h = block(
      h, norm_before_, encoder_attn_layer_norm_,
      [&](const Tensor& y) { return dropout_(encoder_attn_.across(layer_, y, source, context), context); }, context);
  h = block(
      h, norm_before_, final_layer_norm_, [&](const Tensor& y) { return dropout_(feed_forward_(y, context), context); },
      context);
  return layerdrop_(x, h, context);
}

}  // namespace transom
