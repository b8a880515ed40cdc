// SPDX-License-Identifier: Apache-2.0
#include "models/shared/encoder_decoder.h"

#include "base/error.h"

namespace transom {
namespace {

// The decoder's inputs under the names that decoder-only models have for them.
NamedTensors of_decoder(const NamedTensors& inputs, const Tensor& ids) {
  NamedTensors result;
  for (const auto& [name, tensor] : inputs.items())
    if (name.starts_with("decoder_"))
      result.set(name == "decoder_inputs_embeds" ? "inputs_embeds" : name.substr(8), tensor);
  if (!result.find("input_ids").defined() && !result.find("inputs_embeds").defined()) {
    if (!ids.defined()) fail("expected decoder_input_ids, decoder_inputs_embeds or labels");
    result.set("input_ids", ids);
  }
  return result;
}

}  // namespace

EncoderDecoderOutput EncoderDecoder::operator()(const NamedTensors& inputs, const Tensor& ids,
                                                ForwardContext& context) const {
  EncoderDecoderOutput output;
  const DecoderInputs decoder =
      decoder_inputs(of_decoder(inputs, ids), context, Positions::kInOrder, max_target_positions());
  output.encoder = encode(inputs, context);
  output.decoder = decode(decoder, {output.encoder.last_hidden_state, additive_mask(source_mask(inputs))}, context);
  return output;
}

const std::vector<std::string>& encoder_decoder_input_names() {
  static const std::vector<std::string> names = {"input_ids",
                                                 "attention_mask",
                                                 "inputs_embeds",
                                                 "decoder_input_ids",
                                                 "decoder_attention_mask",
                                                 "decoder_inputs_embeds",
                                                 "labels"};
  return names;
}

NamedTensors with_body_outputs(NamedTensors outputs, const EncoderDecoderOutput& output) {
  outputs.set("encoder_last_hidden_state", output.encoder.last_hidden_state);
  const auto add = [&](const std::string& name, const std::vector<Tensor>& states) {
    for (size_t i = 0; i < states.size(); ++i) outputs.set(name + "." + std::to_string(i), states[i]);
  };
  add("decoder_hidden_states", output.decoder.hidden_states);
  add("encoder_hidden_states", output.encoder.hidden_states);
  return outputs;
}

NamedTensors body_outputs(const EncoderDecoderOutput& output) {
  return with_body_outputs({{"last_hidden_state", output.decoder.last_hidden_state}}, output);
}

Tensor shifted_right(const Tensor& ids, int64_t start, int64_t padding) {
  if (ids.rank() != 2) fail("labels: expected [batch, length], found {}", to_string(ids.shape()));
  if (padding < 0) fail("config.json: pad_token_id: expected a number, which labels that do not count are read as");
  const Tensor first = full({ids.dim(0), 1}, static_cast<double>(start), ids.dtype());
  const Tensor shifted = concatenate({first, slice(ids, 1, 0, ids.dim(1) - 1)}, 1);
  const Tensor ignored = equal(shifted, full(shifted.shape(), -100, ids.dtype()));
  return select(ignored, full(shifted.shape(), static_cast<double>(padding), ids.dtype()), shifted);
}

Tensor at_last(const Tensor& hidden, const Tensor& ids, int64_t id) {
  const Tensor place = iota(ids.shape(), 1);
  const Tensor none = full(ids.shape(), -1, DType::kInt64);
  const Tensor found = select(equal(ids, full(ids.shape(), static_cast<double>(id), ids.dtype())), place, none);
  const Tensor chosen = equal(place, broadcast_to(reduce_max(found, {1}, true), ids.shape()));
  return reduce_sum(hidden * unsqueeze(cast(chosen, hidden.dtype()), -1), {1});
}

Embedding shared_embedding(const Scope& scope, int64_t vocabulary, int64_t width, double deviation, int64_t padding,
                           bool tied) {
  const std::vector<std::string> places = {"shared", "encoder.embed_tokens", "decoder.embed_tokens"};
  std::string chosen = places[0];
  for (auto place = places.rbegin(); place != places.rend(); ++place)
    if (scope.holds(*place + ".weight")) chosen = *place;
  Embedding embedding(scope / chosen, vocabulary, width, deviation, padding);
  for (const std::string& place : places)
    if (tied && place != chosen) scope.tied(place + ".weight", embedding.weight());
  return embedding;
}

VocabularyHead::VocabularyHead(const Scope& scope, const std::string& weight, const Embedding& embedding, bool tied,
                               int64_t width, int64_t vocabulary, double deviation)
    : weight_(tied ? embedding.weight() : scope.parameter(weight, {vocabulary, width}, Initial::normal(deviation))) {
  if (tied) scope.tied(weight, weight_);
}

Tensor attention_to_source(const Tensor& q, const KeysAndValues& seen, const Tensor& mask, double scale,
                           const Dropout& dropout, ForwardContext& context) {
  const AttentionOptions options{.scale = scale, .causal = false};
  const int64_t rows = q.dim(0), sources = seen.keys.dim(0);
  // Without a cache there are no beams: other numbers of rows are the caller's mistake, which attention refuses.
  if (!context.cache || sources == 0 || rows == sources || rows % sources != 0)
    return attention(q, seen.keys, seen.values, mask, options, dropout, context);
  const Tensor together = reshape(q, {sources, rows / sources * q.dim(1), q.dim(2), q.dim(3)});
  const Tensor mixed = attention(together, seen.keys, seen.values, mask, options, dropout, context);
  return reshape(mixed, {rows, q.dim(1), mixed.dim(2)});
}

Tensor weights_on_source(const Tensor& q, const Tensor& keys, const Tensor& mask, double scale,
                         const Computing& computing) {
  const Tensor product = cast(einsum("bthd,bshd->bhts", {q, keys}, computing), DType::kFloat32) * scale;
  return softmax(mask.defined() ? product + broadcast_to(cast(mask, DType::kFloat32), product.shape()) : product,
                 computing);
}

void ConditionalGenerationModel::run_encoder(const NamedTensors& inputs, ForwardContext& context) const {
  context.cache->encoder_states = body().encode(inputs, context).last_hidden_state;
  context.cache->encoder_mask = body().source_mask(inputs);
}

Tensor ConditionalGenerationModel::decoder_states(const Tensor& input_ids, const Tensor& position_ids,
                                                  ForwardContext& context) const {
  const NamedTensors inputs{{"input_ids", input_ids}, {"position_ids", position_ids}};
  const DecoderInputs decoder = decoder_inputs(inputs, context, Positions::kInOrder, body().max_target_positions());
  const EncodedSource source{context.cache->encoder_states, additive_mask(context.cache->encoder_mask)};
  return body().decode(decoder, source, context).last_hidden_state;
}

Tensor ConditionalGenerationModel::decoder_logits(const Tensor& input_ids, const Tensor& position_ids,
                                                  ForwardContext& context) const {
  prepare(context);
  return logits(decoder_states(input_ids, position_ids, context), context);
}

Tensor ConditionalGenerationModel::run_step(const PassInputs& pass, ForwardContext& context) const {
  const Tensor hidden = decoder_states(pass.input_ids, pass.position_ids, context);
  return squeeze(cast(logits(slice(hidden, 1, hidden.dim(1) - 1, hidden.dim(1)), context), DType::kFloat32), 1);
}

Tensor ConditionalGenerationModel::decoder_ids(const Tensor& labels) const {
  return shifted_right(labels, decoder_start_token_id_, pad_token_id_);
}

NamedTensors ConditionalGenerationModel::run(const NamedTensors& inputs, ForwardContext& context) const {
  const Tensor labels = inputs.find("labels");
  const Tensor ids = labels.defined() ? decoder_ids(labels) : Tensor();
  const EncoderDecoderOutput output = body()(inputs, ids, context);
  Tensor hidden = output.decoder.last_hidden_state;
  if (context.logits_to_keep > 0 && context.logits_to_keep < hidden.dim(1))
    hidden = slice(hidden, 1, hidden.dim(1) - context.logits_to_keep, hidden.dim(1));
  return with_body_outputs(token_outputs(logits(hidden, context), inputs, context), output);
}

std::vector<std::string> ConditionalGenerationModel::input_names() const { return encoder_decoder_input_names(); }

}  // namespace transom
