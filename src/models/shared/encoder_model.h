// SPDX-License-Identifier: Apache-2.0
// Models of a text encoder with a head, for families whose heads differ in little. A body is built from (Scope,
// BertConfig of its family), called with (inputs, context), and names itself: kPrefix, and its configuration: Settings.
// kTextsInRows says whether its layers keep several texts of a row apart: their attention is that of nn/attention, and
// positions are those of encoder_inputs.
#pragma once

#include "models/families/bert/bert_encoder.h"
#include "models/shared/encoder_body.h"
#include "models/shared/encoder_heads.h"
#include "models/shared/tokens_of_batch.h"

namespace transom {

template <typename Body>
class EncoderModel : public Model {
 public:
  bool takes_texts_in_rows() const override { return Body::kTextsInRows; }

 protected:
  using Settings = typename Body::Settings;
  // `prefix` is empty for the bare body.
  EncoderModel(const Config& config, const Scope& scope, const std::string& prefix = Body::kPrefix)
      : config_(config), body_(prefix.empty() ? scope : scope / prefix, config_) {}
  std::vector<std::string> input_names() const override { return Body::input_names("labels"); }
  // The outputs of `head` on the last hidden states [B, T, D], and the states of all layers if they are asked for.
  template <typename Head>
  NamedTensors with_head(const NamedTensors& inputs, ForwardContext& context, Head&& head) const {
    const TokensOfBatch tokens(inputs);
    EncoderOutput encoded = body_(tokens.inputs(), context);
    NamedTensors outputs = head(tokens.in_place(encoded.last_hidden_state));
    for (Tensor& state : encoded.hidden_states) state = tokens.in_place(state);
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

  Settings config_;
  Body body_;
};

// A class for each token.
template <typename Body>
class EncoderForTokenClassification : public EncoderModel<Body> {
 public:
  EncoderForTokenClassification(const Config& config, const Scope& scope)
      : EncoderModel<Body>(config, scope),
        dropout_(this->config_.classifier_dropout),
        classifier_(scope / "classifier", this->config_.hidden_size, this->config_.num_labels,
                    this->config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return this->with_head(inputs, context, [&](const Tensor& hidden) {
      return token_outputs(classifier_(dropout_(hidden, context), context), inputs, context);
    });
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

// Start and end of an answer.
template <typename Body>
class EncoderForQuestionAnswering : public EncoderModel<Body> {
 public:
  EncoderForQuestionAnswering(const Config& config, const Scope& scope)
      : EncoderModel<Body>(config, scope),
        qa_outputs_(scope / "qa_outputs", this->config_.hidden_size, 2, this->config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = Body::input_names("start_positions");
    names.push_back("end_positions");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return this->with_head(inputs, context, [&](const Tensor& hidden) {
      return span_outputs(qa_outputs_(hidden, context), inputs, context);
    });
  }

 private:
  Linear qa_outputs_;
};

// What stood at each place. Head: built from (Scope of the model, configuration, embeddings of words), called with
// hidden states [B, T, D] for logits [B, T, V].
template <typename Body, typename Head>
class EncoderForMaskedLM : public EncoderModel<Body> {
 public:
  EncoderForMaskedLM(const Config& config, const Scope& scope)
      : EncoderModel<Body>(config, scope), head_(scope, this->config_, this->body_.word_embeddings()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const bool chooses = context.training && context.computing.max_predictions > 0;  // among those of each row
    const TokensOfBatch tokens(inputs);
    if (chooses || !tokens.without_padding())
      return this->with_head(inputs, context,
                             [&](const Tensor& hidden) { return masked_outputs(head_, hidden, inputs, context); });
    EncoderOutput encoded = this->body_(tokens.inputs(), context);
    NamedTensors own;
    if (const Tensor labels = inputs.find("labels"); labels.defined()) own.set("labels", tokens.taken(labels));
    NamedTensors outputs = token_outputs(head_(encoded.last_hidden_state, context), own, context);
    outputs.set("logits", tokens.in_place(outputs.at("logits")));
    for (Tensor& state : encoded.hidden_states) state = tokens.in_place(state);
    add_hidden_states(outputs, encoded.hidden_states);
    return outputs;
  }

 private:
  Head head_;
};

// The first token of each row: [B, T, D] -> [B, D].
inline Tensor first_token(const Tensor& hidden) { return squeeze(slice(hidden, 1, 0, 1), 1); }

}  // namespace transom
