// SPDX-License-Identifier: Apache-2.0
// Heads of decoder-only models: the next token, a class for the text, a class for each token, the place of an answer,
// or the bare body.
#include <algorithm>

#include "base/error.h"
#include "graph/ops/products/packed_matrix.h"
#include "models/families/bert/bert_encoder.h"
#include "models/nn/attention/texts_in_rows.h"
#include "models/nn/losses/token_loss.h"
#include "models/nn/weight.h"
#include "models/shared/decoder.h"
#include "models/shared/encoder_heads.h"
#include "models/shared/placed_decoder.h"
#include "models/shared/record_parts.h"
#include "models/shared/tokens_of_batch.h"

namespace transom {
namespace {

class DecoderModel : public GenerativeModel {
 public:
  DecoderModel(const Config& config, const Scope& scope, const DecoderMaker& body)
      : body_(body(config, scope)), traits_(body_->traits()) {
    refuse_unless(config, "is_causal", "true");  // of embedding models whose tokens see those behind them too
  }
  int64_t max_positions() const override { return traits_.max_positions; }
  bool can_generate() const override { return false; }
  int64_t cache_expires_at() const override { return traits_.cache_expires_at; }
  bool takes_texts_in_rows() const override { return traits_.texts_in_rows; }
  int64_t embedding_width() const override {
    if (const auto* placed = dynamic_cast<const PlacedDecoder*>(body_.get())) return placed->embedding_width();
    if (source_rows() > 0) return 0;
    const std::vector<std::string> names = body_->input_names();
    if (std::find(names.begin(), names.end(), "inputs_embeds") == names.end()) return 0;
    const Parameter& table = *body_->word_embeddings().weight();
    return table.packed ? table.packed->depth : table.value.dim(1);
  }
  std::vector<std::vector<AttachedInput>> attached_inputs(const NamedTensors& inputs) const override {
    if (!body_->reads_beside_tokens(inputs)) return GenerativeModel::attached_inputs(inputs);
    ForwardContext context;
    prepare(context);
    return body_->attached_inputs(inputs, context);
  }
  int64_t source_rows() const override {
    const auto* reader = dynamic_cast<const SourceDecoder*>(body_.get());
    return reader ? reader->source_rows() : 0;
  }
  int64_t position_axes() const override {
    const auto* placed = dynamic_cast<const PlacedDecoder*>(body_.get());
    return placed ? placed->position_axes() : 1;
  }
  TextPositions positions_of(const ModelInputs& inputs) const override {
    const auto* placed = dynamic_cast<const PlacedDecoder*>(body_.get());
    return placed ? placed->positions_of(inputs) : GenerativeModel::positions_of(inputs);
  }
  const Decoder& body() const { return *body_; }

 protected:
  AttendedPicture run_source(const NamedTensors& tensors, ForwardContext& context) const override {
    const auto* reader = dynamic_cast<const SourceDecoder*>(body_.get());
    return reader ? reader->run_source(tensors, context) : GenerativeModel::run_source(tensors, context);
  }
  Tensor embeddings_of(const Tensor& input_ids, ForwardContext& context) const override {
    return body_->embed(input_ids, context);
  }
  Tensor run_embedding(const NamedTensors& tensors, ForwardContext& context) const override {
    // Tokens that are read together with the rows beside them, [1, n].
    if (const Tensor ids = tensors.find("input_ids"); ids.defined()) {
      if (tensors.items().size() != 1 || ids.rank() != 2 || ids.dim(0) != 1)
        fail("an input among the tokens: expected input_ids [1, length] alone, found {}", to_string(ids.shape()));
      return squeeze(body_->embed(ids, context), 0);
    }
    return body_->reads_beside_tokens(tensors) ? body_->run_embedding(tensors, context)
                                               : GenerativeModel::run_embedding(tensors, context);
  }
  std::vector<std::string> input_names() const override { return body_->input_names(); }
  std::vector<std::string> with_labels() const {
    std::vector<std::string> names = body_->input_names();
    names.push_back("labels");
    return names;
  }
  // The hidden states in the places of the batch.
  DecoderOutput decode(const NamedTensors& inputs, ForwardContext& context) const {
    const TokensOfBatch tokens(inputs);
    DecoderOutput decoded = (*body_)(tokens.inputs(), context);
    decoded.last_hidden_state = tokens.in_place(decoded.last_hidden_state);
    for (Tensor& state : decoded.hidden_states) state = tokens.in_place(state);
    return decoded;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const DecoderOutput decoded = decode(inputs, context);
    NamedTensors outputs{{"last_hidden_state", decoded.last_hidden_state}};
    add_hidden_states(outputs, decoded.hidden_states);
    return outputs;
  }

  std::unique_ptr<Decoder> body_;
  DecoderTraits traits_;
};

// What each token is to predict.
Tensor targets_of(const Tensor& labels, const ForwardContext& context) {
  return context.texts ? next_labels(labels, *context.texts) : next_labels(labels);
}

// A linear layer over the vocabulary, whose weight may be that of the embedding.
class DecoderForCausalLM : public DecoderModel {
 public:
  DecoderForCausalLM(const Config& config, const Scope& scope, const Scope& inner, const DecoderMaker& body)
      : DecoderModel(config, inner, body) {
    const std::string name = traits_.head + ".weight";
    if (traits_.tie_word_embeddings) {
      weight_ = body_->word_embeddings().weight();
      scope.tied(name, weight_);
    } else {
      weight_ = scope.parameter(name, {traits_.vocab_size, traits_.width}, Initial::normal(traits_.initializer_range));
    }
    if (traits_.head_bias) bias_ = scope.parameter(traits_.head + ".bias", {traits_.vocab_size}, Initial::zeros());
  }
  bool can_generate() const override { return true; }

 protected:
  std::vector<std::string> input_names() const override { return with_labels(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const TokensOfBatch tokens(inputs);
    DecoderOutput decoded = (*body_)(tokens.inputs(), context);
    Tensor hidden = decoded.last_hidden_state;
    if (context.logits_to_keep > 0 && context.logits_to_keep < hidden.dim(1))
      hidden = slice(hidden, 1, hidden.dim(1) - context.logits_to_keep, hidden.dim(1));
    const LogitsHead head{.weight = *weight_,
                          .bias = bias_.get(),
                          .multiplier = traits_.logit_multiplier,
                          .soft_cap = traits_.logit_soft_cap};
    const Tensor labels = inputs.find("labels"), auxiliary = body_->auxiliary_loss(decoded, tokens.inputs());
    TokenLosses losses;
    if (labels.defined()) losses = token_losses(head, hidden, targets_of(tokens.taken(labels), context), context);
    else losses.logits = head(hidden, context);
    Tensor loss = losses.loss;
    if (loss.defined() && auxiliary.defined()) loss = loss + mean_of_all(auxiliary, context) * traits_.auxiliary_weight;
    NamedTensors outputs = with_loss(loss, {});
    if (losses.logits.defined()) outputs.set("logits", tokens.in_place(losses.logits));
    if (losses.measures.defined()) outputs.set("token_measures", losses.measures);
    for (const auto& [name, value] :
         {std::pair("token_losses", losses.each.losses), std::pair("token_entropies", losses.each.entropies),
          std::pair("token_right", losses.each.right), std::pair("token_means", losses.each.means)})
      if (value.defined()) outputs.set(name, squeeze(tokens.in_place(unsqueeze(value, 2)), 2));
    if (auxiliary.defined()) outputs.set("aux_loss", auxiliary);
    for (Tensor& state : decoded.hidden_states) state = tokens.in_place(state);
    add_hidden_states(outputs, decoded.hidden_states);
    return outputs;
  }

 private:
  std::shared_ptr<Parameter> weight_, bias_;
};

// The class is read at the last token that is no padding.
class DecoderForSequenceClassification : public DecoderModel {
 public:
  DecoderForSequenceClassification(const Config& config, const Scope& scope, const Scope& inner,
                                   const DecoderMaker& body)
      : DecoderModel(config, inner, body),
        problem_type_(config.get_string("problem_type", "")),
        score_(scope / "score", traits_.width, number_of_labels(config),
               {.bias = false, .deviation = traits_.initializer_range}) {}

 protected:
  std::vector<std::string> input_names() const override { return with_labels(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const DecoderOutput decoded = decode(inputs, context);
    const Tensor& hidden = decoded.last_hidden_state;
    NamedTensors outputs = sequence_classification_outputs(
        score_(last_tokens(hidden, inputs.find("input_ids")), context), inputs, problem_type_, context);
    add_hidden_states(outputs, decoded.hidden_states);
    return outputs;
  }

 private:
  Tensor last_tokens(const Tensor& hidden, const Tensor& ids) const {
    const int64_t B = hidden.dim(0), T = hidden.dim(1), D = hidden.dim(2);
    std::optional<int64_t> padding_id = traits_.pad_token_id;
    if (!padding_id && config().has("pad_token_id")) padding_id = config().get_int("pad_token_id");  // the tokenizer's
    if (!padding_id && B > 1)
      fail("config.json: pad_token_id is missing; without it rows of a batch cannot be told from their padding");
    if (!padding_id || !ids.defined()) return squeeze(slice(hidden, 1, T - 1, T), 1);
    const Tensor padding = full(ids.shape(), static_cast<double>(*padding_id), ids.dtype());
    const Tensor last = reduce_max(iota({B, T}, 1) * cast(not_equal(ids, padding), DType::kInt64), {1});  // [B]
    return gather(reshape(hidden, {B * T, D}), last + iota({B}, 0) * static_cast<double>(T), 0);
  }

  std::string problem_type_;
  Linear score_;
};

class DecoderForTokenClassification : public DecoderModel {
 public:
  DecoderForTokenClassification(const Config& config, const Scope& scope, const Scope& inner, const DecoderMaker& body)
      : DecoderModel(config, inner, body),
        dropout_(config.get_float("classifier_dropout", config.get_float("hidden_dropout", 0.1))),
        classifier_(scope / traits_.token_head, traits_.width, number_of_labels(config),
                    {.deviation = traits_.initializer_range}) {}

 protected:
  std::vector<std::string> input_names() const override { return with_labels(); }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const DecoderOutput decoded = decode(inputs, context);
    NamedTensors outputs =
        token_outputs(classifier_(dropout_(decoded.last_hidden_state, context), context), inputs, context);
    add_hidden_states(outputs, decoded.hidden_states);
    return outputs;
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

// Where the answer begins and ends.
class DecoderForQuestionAnswering : public DecoderModel {
 public:
  DecoderForQuestionAnswering(const Config& config, const Scope& scope, const Scope& inner, const DecoderMaker& body)
      : DecoderModel(config, inner, body),
        qa_outputs_(scope / "qa_outputs", traits_.width, 2, {.deviation = traits_.initializer_range}) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = body_->input_names();
    names.insert(names.end(), {"start_positions", "end_positions"});
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const DecoderOutput decoded = decode(inputs, context);
    NamedTensors outputs = span_outputs(qa_outputs_(decoded.last_hidden_state, context), inputs, context);
    add_hidden_states(outputs, decoded.hidden_states);
    return outputs;
  }

 private:
  Linear qa_outputs_;
};

}  // namespace

FamilyHead head_of(DecoderHead head, const DecoderHeadNames& names) {
  switch (head) {
    case DecoderHead::kNone:
      return body_head({"feature-extraction"});
    case DecoderHead::kCausalLM:
      return causal_lm_head({names.vocabulary.front()}, names.vocabulary, names.divisor);
    case DecoderHead::kSequenceClassification:
      return sequence_classification_head({"score"});
    case DecoderHead::kTokenClassification:
      return token_classification_head({names.tokens});
    case DecoderHead::kQuestionAnswering:
      return question_answering_head({"qa_outputs"});
  }
  fail(ErrorKind::kInternal, "an unknown head of a decoder");
}

const Decoder& body_of(const Model& model) {
  const auto* decoder = dynamic_cast<const DecoderModel*>(&model);
  if (!decoder) fail(ErrorKind::kUnsupported, "{} is no decoder of tokens alone", model.architecture());
  return decoder->body();
}

std::unique_ptr<Model> make_decoder_model(const Config& config, const Scope& scope, const DecoderMaker& body,
                                          const std::string& prefix, DecoderHead head) {
  const Scope inner = scope / prefix;
  switch (head) {
    case DecoderHead::kNone:
      return std::make_unique<DecoderModel>(config, scope, body);
    case DecoderHead::kCausalLM:
      return std::make_unique<DecoderForCausalLM>(config, scope, inner, body);
    case DecoderHead::kSequenceClassification:
      return std::make_unique<DecoderForSequenceClassification>(config, scope, inner, body);
    case DecoderHead::kTokenClassification:
      return std::make_unique<DecoderForTokenClassification>(config, scope, inner, body);
    case DecoderHead::kQuestionAnswering:
      return std::make_unique<DecoderForQuestionAnswering>(config, scope, inner, body);
  }
  fail(ErrorKind::kInternal, "an unknown head of a decoder");
}

}  // namespace transom
