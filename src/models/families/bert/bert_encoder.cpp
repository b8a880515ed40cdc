// SPDX-License-Identifier: Apache-2.0
#include "models/families/bert/bert_encoder.h"

#include <cmath>

#include "base/error.h"
#include "models/family.h"
#include "models/shared/decoder.h"
#include "models/shared/encoder_heads.h"

namespace transom {

BertConfig::BertConfig(const Config& config, bool reads_source)
    : vocab_size(config.get_int("vocab_size", 30522)),
      hidden_size(config.get_int("hidden_size", 768)),
      num_hidden_layers(config.get_int("num_hidden_layers", 12)),
      num_attention_heads(config.get_int("num_attention_heads", 12)),
      intermediate_size(config.get_int("intermediate_size", 3072)),
      max_position_embeddings(config.get_int("max_position_embeddings", 512)),
      type_vocab_size(config.get_int("type_vocab_size", 2)),
      pad_token_id(padding_id(config, 0)),
      hidden_dropout_prob(config.get_float("hidden_dropout_prob", 0.1)),
      attention_probs_dropout_prob(config.get_float("attention_probs_dropout_prob", 0.1)),
      classifier_dropout(config.get_float("classifier_dropout", hidden_dropout_prob)),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-12)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      hidden_act(config.get_string("hidden_act", "gelu")),
      problem_type(config.get_string("problem_type", "")),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", true)),
      is_decoder(config.get_bool("is_decoder", reads_source)),
      num_labels(number_of_labels(config)) {
  refuse_unless(config, "position_embedding_type", "absolute");
  refuse_unless(config, "add_cross_attention", reads_source ? "true" : "false");
  if (reads_source) refuse_unless(config, "is_decoder", "true");
  if (num_attention_heads <= 0 || hidden_size % num_attention_heads != 0)
    fail("config.json: hidden_size {} is not divisible by num_attention_heads {}", hidden_size, num_attention_heads);
}

BertEmbeddings::BertEmbeddings(const Scope& scope, const BertConfig& c, bool positions_after_padding)
    : word_embeddings(scope / "word_embeddings", c.vocab_size, c.hidden_size, c.initializer_range,
                      c.pad_token_id.value_or(-1)),
      position_embeddings(scope / "position_embeddings", c.max_position_embeddings, c.hidden_size, c.initializer_range,
                          positions_after_padding ? c.pad_token_id.value_or(-1) : -1),
      token_type_embeddings(scope / "token_type_embeddings", c.type_vocab_size, c.hidden_size, c.initializer_range),
      layer_norm_(scope / "LayerNorm", c.hidden_size, c.layer_norm_eps),
      dropout_(c.hidden_dropout_prob) {}

Tensor BertEmbeddings::operator()(const Tensor& input_ids, const Tensor& inputs_embeds, const Tensor& token_type_ids,
                                  const Tensor& position_ids, ForwardContext& context) const {
  const Tensor words = inputs_embeds.defined() ? inputs_embeds : word_embeddings(input_ids, context);
  const Tensor types = token_type_ids.defined() ? token_type_ids : zeros({1, words.dim(1)}, DType::kInt64);
  const Tensor x = words + token_type_embeddings(types, context) + position_embeddings(position_ids, context);
  return dropout_(layer_norm_(x, context), context);
}

BertSelfAttention::BertSelfAttention(const Scope& scope, const BertConfig& c, int64_t layer)
    : path_(scope.path()),
      layer_(layer),
      heads_(c.num_attention_heads),
      causal_(c.is_decoder),
      query_(scope / "attention" / "self" / "query", c.hidden_size, c.hidden_size, c.new_weights()),
      key_(scope / "attention" / "self" / "key", c.hidden_size, c.hidden_size, c.new_weights()),
      value_(scope / "attention" / "self" / "value", c.hidden_size, c.hidden_size, c.new_weights()),
      output_(scope / "attention" / "output" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
      norm_(scope / "attention" / "output" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
      attention_dropout_(c.attention_probs_dropout_prob),
      dropout_(c.hidden_dropout_prob) {}

Tensor BertSelfAttention::operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
  Tensor attended;
  {
    const ModuleScope module(path_ + ".attention.self");
    const Tensor q = query_(x, context), k = key_(x, context), v = value_(x, context);
    if (causal_) {
      const Shape split{x.dim(0), x.dim(1), heads_, x.dim(2) / heads_};
      attended = cached_attention(layer_, reshape(q, split), reshape(k, split), reshape(v, split), mask,
                                  {.scale = 1 / std::sqrt(static_cast<double>(split[3]))}, attention_dropout_, context);
    } else {
      attended = multi_head_attention(q, k, v, heads_, mask, attention_dropout_, context);
    }
  }
  return norm_(dropout_(output_(attended, context), context) + x, context);
}

BertFeedForward::BertFeedForward(const Scope& scope, const BertConfig& c)
    : activation_(c.hidden_act),
      intermediate_(scope / "intermediate" / "dense", c.hidden_size, c.intermediate_size, c.new_weights()),
      output_(scope / "output" / "dense", c.intermediate_size, c.hidden_size, c.new_weights()),
      norm_(scope / "output" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
      dropout_(c.hidden_dropout_prob) {}

Tensor BertFeedForward::operator()(const Tensor& x, ForwardContext& context) const {
  return norm_(dropout_(output_(activation(activation_, intermediate_(x, context)), context), context) + x, context);
}

BertEncoder::BertEncoder(const Scope& scope, const BertConfig& config, bool positions_after_padding)
    : config_(config),
      positions_after_padding_(positions_after_padding),
      embeddings_(scope / "embeddings", config, positions_after_padding) {
  if (positions_after_padding && !config.pad_token_id)
    fail("config.json: pad_token_id: expected a number, behind which positions begin, found null");
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    layers_.emplace_back(scope / "encoder" / "layer" / i, config, i);
}

EncoderInputs bert_inputs(const NamedTensors& inputs, const BertConfig& c, bool positions_after_padding,
                          ForwardContext& context) {
  const std::optional<int64_t> padding = positions_after_padding ? c.pad_token_id : std::nullopt;
  if (!c.is_decoder) return encoder_inputs(inputs, c.max_position_embeddings, padding, context.texts);
  const int64_t first = padding ? *padding + 1 : 0;
  DecoderInputs in = decoder_inputs(inputs, context, Positions::kInOrder, c.max_position_embeddings - first);
  if (!in.causal) fail("attention_mask: expected [batch, length], as each token sees those before it alone");
  if (padding && !inputs.find("position_ids").defined())
    in.position_ids = in.input_ids.defined() ? transom::positions_after_padding(in.input_ids, *padding)
                                             : in.position_ids + static_cast<double>(first);
  return {in.input_ids, in.inputs_embeds, inputs.find("token_type_ids"), in.position_ids, in.bias, in.length};
}

EncoderOutput BertEncoder::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  const EncoderInputs in = bert_inputs(inputs, config_, positions_after_padding_, context);
  const Tensor x = embeddings_(in.input_ids, in.inputs_embeds, in.token_type_ids, in.position_ids, context);
  return through_layers(layers_, x, in.mask, context);
}

}  // namespace transom
