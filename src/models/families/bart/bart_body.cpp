// SPDX-License-Identifier: Apache-2.0
#include "models/families/bart/bart_body.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace transom {
namespace {

constexpr int64_t kOffset = 2;  // of learned positions
constexpr double kEpsilon = 1e-5;

std::vector<float> sinusoids(int64_t positions, int64_t width) {
  if (positions < 0 || width < 0 || positions > (int64_t{1} << 28) / std::max<int64_t>(width, 1))
    fail("config.json: max_position_embeddings {} of d_model {} are more than this takes", positions, width);
  std::vector<float> values;
  const int64_t sines = (width + 1) / 2;
  for (int64_t position = 0; position < positions; ++position)
    for (int64_t i = 0; i < width; ++i) {
      const int64_t pair = i < sines ? i : i - sines;
      const double angle =
          static_cast<double>(position) / std::pow(10000.0, 2 * static_cast<double>(pair) / static_cast<double>(width));
      values.push_back(static_cast<float>(i < sines ? std::sin(angle) : std::cos(angle)));
    }
  return values;
}

// x through the layers of a stack and the norm behind them, if there is one.
template <typename Layer, typename Call>
DecoderOutput through_stack(const std::vector<Layer>& layers, const Tensor& x, const std::optional<LayerNorm>& norm,
                            ForwardContext& context, const Call& call) {
  const auto end = [&](const Tensor& y, ForwardContext&) { return norm ? (*norm)(y, context) : y; };
  return through_decoder(layers, x, context, end, call);
}

}  // namespace

std::shared_ptr<Parameter> sinusoid_table(const Scope& scope, int64_t positions, int64_t width) {
  const Shape shape{positions, width};
  const std::vector<float> values = sinusoids(positions, width);
  if (scope.holds("weight")) return scope.buffer("weight", {DType::kFloat32, shape}, Initial::given(values));
  return std::make_shared<Parameter>(Parameter{scope.path() + ".weight", Tensor::from(values, shape)});
}

// ---- the body

BartEmbeddings::BartEmbeddings(const Scope& scope, const BartConfig& c, const Embedding& words, bool decoder)
    : scale_(c.embed_scale()),
      scales_given_(decoder && c.positions == BartVariant::Positions::kTable),
      embed_tokens_(words),
      dropout_(c.dropout) {
  switch (c.positions) {
    case BartVariant::Positions::kLearned:
      learned_.emplace(scope / "embed_positions", c.max_position_embeddings + kOffset, c.d_model, c.init_std);
      break;
    case BartVariant::Positions::kTable:
      // Fixed in the paper; Transformers trains it once it is loaded, and so does this.
      table_ = (scope / "embed_positions")
                   .parameter("weight", {c.max_position_embeddings, c.d_model},
                              Initial::given(sinusoids(c.max_position_embeddings, c.d_model)));
      break;
    case BartVariant::Positions::kPastPadding:
      waves_.emplace(scope, c.d_model, c.init_std, PositionTable{.module = "", .zero_row = c.pad_token_id});
      break;
  }
  if (c.embedding_norm) norm_.emplace(scope / "layernorm_embedding", c.d_model, kEpsilon);
}

Tensor BartEmbeddings::operator()(const Tensor& ids, const Tensor& embeds, const Tensor& positions,
                                  ForwardContext& context) const {
  const Tensor given = embeds.defined() ? embeds : embed_tokens_(ids, context);
  const Tensor words = embeds.defined() && !scales_given_ ? given : given * scale_;
  const Tensor places = learned_ ? (*learned_)(positions + static_cast<double>(kOffset), context)
                        : table_ ? gather(table_->value, positions, 0)
                                 : (*waves_)(positions, context);
  const Tensor x = words + (learned_ ? places : cast(places, words.dtype()));
  return dropout_(norm_ ? (*norm_)(x, context) : x, context);
}

BartBody::BartBody(const Scope& scope, const BartConfig& c)
    : shared(shared_embedding(scope, c.vocab_size, c.d_model, c.init_std, c.pad_token_id, c.tie_word_embeddings)),
      c_(c),
      encoder_embeddings_(scope / "encoder", c, words_of(scope / "encoder"), false),
      decoder_embeddings_(scope / "decoder", c, words_of(scope / "decoder"), true) {
  if (past_padding() && c.pad_token_id < 0)
    fail("config.json: pad_token_id: expected a number, behind which positions begin, found none");
  for (int64_t i = 0; i < c.encoder_layers; ++i) encoder_layers_.emplace_back(scope / "encoder" / "layers" / i, c);
  for (int64_t i = 0; i < c.decoder_layers; ++i) decoder_layers_.emplace_back(scope / "decoder" / "layers" / i, c, i);
  if (!c.final_norm) return;
  encoder_norm_.emplace(scope / "encoder" / "layer_norm", c.d_model, kEpsilon);
  decoder_norm_.emplace(scope / "decoder" / "layer_norm", c.d_model, kEpsilon);
}

// Untied models may hold an embedding for each stack.
Embedding BartBody::words_of(const Scope& stack) const {
  if (c_.tie_word_embeddings || !stack.holds("embed_tokens.weight")) return shared;
  return {stack / "embed_tokens", c_.vocab_size, c_.d_model, c_.init_std, c_.pad_token_id};
}

EncoderOutput BartBody::encode(const NamedTensors& inputs, ForwardContext& context) const {
  const EncoderInputs in = past_padding() ? encoder_inputs(inputs, std::numeric_limits<int64_t>::max(), c_.pad_token_id)
                                          : encoder_inputs(inputs, c_.max_position_embeddings);
  const Tensor x = encoder_embeddings_(in.input_ids, in.inputs_embeds, in.position_ids, context);
  const auto call = [&](const BartEncoderLayer& layer, const Tensor& y) { return layer(y, in.mask, context); };
  const DecoderOutput output = through_stack(encoder_layers_, x, encoder_norm_, context, call);
  return {output.last_hidden_state, output.hidden_states};
}

// Of tokens behind those of a cache too, whose number the first position says.
Tensor BartBody::decoder_places(const DecoderInputs& in) const {
  if (!past_padding()) return in.position_ids;
  const auto padding = static_cast<double>(c_.pad_token_id);
  if (!in.input_ids.defined()) return in.position_ids + (padding + 1);
  const Tensor counted =
      cast(not_equal(in.input_ids, full(in.input_ids.shape(), padding, in.input_ids.dtype())), DType::kInt64);
  return (cumulative_sum(counted, 1) + slice(in.position_ids, 1, 0, 1)) * counted + padding;
}

DecoderOutput BartBody::decode(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const {
  const Tensor x = decoder_embeddings_(in.input_ids, in.inputs_embeds, decoder_places(in), context);
  const auto call = [&](const BartDecoderLayer& layer, const Tensor& y) { return layer(y, in, source, context); };
  return through_stack(decoder_layers_, x, decoder_norm_, context, call);
}

// mBART's labels end with the language, with which the decoder begins: the last that is no padding comes first.
Tensor bart_shifted(const Tensor& ids, const BartConfig& c) {
  if (!c.wraps_labels) return shifted_right(ids, c.decoder_start_token_id, c.pad_token_id);
  if (c.pad_token_id < 0) fail("config.json: pad_token_id: expected a number, by which the ends of labels are found");
  const Tensor shifted = shifted_right(ids, c.pad_token_id, c.pad_token_id);
  const Tensor ignored = equal(ids, full(ids.shape(), -100, ids.dtype()));
  const Tensor padding = full(ids.shape(), static_cast<double>(c.pad_token_id), ids.dtype());
  const Tensor known = select(ignored, padding, ids);
  const Tensor count = reduce_sum(cast(not_equal(known, padding), DType::kInt64), {1}, true);                  // [B, 1]
  const Tensor last = take_along_axis(known, maximum(count - 1.0, full(count.shape(), 0, DType::kInt64)), 1);  // [B, 1]
  return concatenate({last, slice(shifted, 1, 1, ids.dim(1))}, 1);
}

// ---- classes

EncoderDecoderOutput BartWithHead::through(const NamedTensors& inputs, ForwardContext& context) const {
  const Tensor ids = inputs.find("input_ids");
  return model_(inputs, ids.defined() ? bart_shifted(ids, c_) : ids, context);
}

BartGeneration::BartGeneration(const BartConfig& c, const Scope& scope)
    : ConditionalGenerationModel(c.decoder_start_token_id, c.pad_token_id),
      c_(c),
      model_(scope / "model", c),
      lm_head_(scope, "lm_head.weight", model_.shared, c.tie_word_embeddings, c.d_model, c.vocab_size, c.init_std) {
  if (c.logits_bias)
    final_logits_bias_ = scope.buffer("final_logits_bias", {DType::kFloat32, {1, c.vocab_size}}, Initial::zeros());
}

Tensor BartGeneration::logits(const Tensor& hidden, ForwardContext& context) const {
  const Tensor logits = lm_head_(hidden, context);
  return final_logits_bias_ ? logits + cast(final_logits_bias_->value, logits.dtype()) : logits;
}

BartSequenceClassifier::BartSequenceClassifier(const BartConfig& c, const Scope& scope)
    : BartWithHead(c, scope / "model"),
      classification_head_(scope / "classification_head", c.d_model, c.num_labels, c.classifier_dropout, c.init_std) {}

NamedTensors BartSequenceClassifier::run(const NamedTensors& inputs, ForwardContext& context) const {
  const EncoderDecoderOutput output = through(inputs, context);
  const Tensor state = at_last(output.decoder.last_hidden_state, inputs.at("input_ids"), c_.eos_token_id);
  const Tensor logits = classification_head_(state, context);
  return with_body_outputs(sequence_classification_outputs(logits, inputs, c_.problem_type, context), output);
}

BartAnswers::BartAnswers(const BartConfig& c, const Scope& scope)
    : BartWithHead(c, scope / "model"), qa_outputs_(scope / "qa_outputs", c.d_model, 2, c.new_weights()) {}

std::vector<std::string> BartAnswers::input_names() const {
  std::vector<std::string> names = encoder_decoder_input_names();
  names.back() = "start_positions";
  names.push_back("end_positions");
  return names;
}

NamedTensors BartAnswers::run(const NamedTensors& inputs, ForwardContext& context) const {
  const EncoderDecoderOutput output = through(inputs, context);
  return with_body_outputs(span_outputs(qa_outputs_(output.decoder.last_hidden_state, context), inputs, context),
                           output);
}

// ---- records

Architecture bart_generation(const std::string& name, std::unique_ptr<Model> (*make)(const Config&, const Scope&),
                             bool logits_bias) {
  std::vector<std::string> modules{"lm_head"};
  if (logits_bias) modules.emplace_back("final_logits_bias");
  return {name,
          sequence_to_sequence_head({"text2text-generation", "summarization", "translation"}, std::move(modules),
                                    "lm_head"),
          make};
}

FamilyWeights bart_weights() {
  return {.lora_targets = {"q_proj", "v_proj"},
          .late_parts = none,
          .awq_activation = none,
          .scaled_layers = none,
          .opens_no_codes = false,
          .multi_query = none,
          .adapter_targets = {.ia3 = {"q_proj", "v_proj", "fc2"},
                              .ia3_feedforward = {"fc2"},
                              .norms = {"self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"},
                              .adalora = {"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"}}};
}

}  // namespace transom
