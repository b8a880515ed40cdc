// SPDX-License-Identifier: Apache-2.0
// BERT and its heads. The encoder is in bert_encoder.h.
#include "base/error.h"
#include "models/bert_encoder.h"
#include "models/encoder_causal_lm.h"
#include "models/encoder_heads.h"
#include "models/family.h"

namespace transom {
namespace {

// A model with the body under "bert", and perhaps a pooler.
class BertModelWithHead : public Model {
 protected:
  BertModelWithHead(const Config& config, const Scope& scope, bool pooled, const std::string& body = "bert")
      : config_(config), bert_(body.empty() ? scope : scope / body, config_, false) {
    if (pooled) pooler_.emplace((body.empty() ? scope : scope / body) / "pooler", config_);
  }
  std::vector<std::string> input_names() const override { return encoder_input_names(); }
  // Hidden states of the last layer, and outputs that hold the states of all layers if they are asked for.
  Tensor encode(const NamedTensors& inputs, ForwardContext& context, NamedTensors& extra) const {
    EncoderOutput result = bert_(inputs, context);
    add_hidden_states(extra, result.hidden_states);
    return result.last_hidden_state;
  }
  static NamedTensors joined(NamedTensors outputs, const NamedTensors& extra) {
    for (const auto& [name, tensor] : extra.items()) outputs.set(name, tensor);
    return outputs;
  }

  BertConfig config_;
  BertEncoder bert_;
  std::optional<BertPooler> pooler_;
};

class BertModel : public BertModelWithHead {
 public:
  BertModel(const Config& config, const Scope& scope) : BertModelWithHead(config, scope, true, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    NamedTensors extra;
    const Tensor hidden = encode(inputs, context, extra);
    return joined({{"last_hidden_state", hidden}, {"pooler_output", (*pooler_)(hidden)}}, extra);
  }
};

class BertForSequenceClassification : public BertModelWithHead {
 public:
  BertForSequenceClassification(const Config& config, const Scope& scope)
      : BertModelWithHead(config, scope, true),
        dropout_(config_.classifier_dropout),
        classifier_(scope / "classifier", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    NamedTensors extra;
    const Tensor pooled = (*pooler_)(encode(inputs, context, extra));
    return joined(sequence_classification_outputs(classifier_(dropout_(pooled, context)), inputs, config_.problem_type),
                  extra);
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

class BertForTokenClassification : public BertModelWithHead {
 public:
  BertForTokenClassification(const Config& config, const Scope& scope)
      : BertModelWithHead(config, scope, false),
        dropout_(config_.classifier_dropout),
        classifier_(scope / "classifier", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    NamedTensors extra;
    const Tensor hidden = encode(inputs, context, extra);
    return joined(token_outputs(classifier_(dropout_(hidden, context)), inputs), extra);
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

class BertForQuestionAnswering : public BertModelWithHead {
 public:
  BertForQuestionAnswering(const Config& config, const Scope& scope)
      : BertModelWithHead(config, scope, false),
        qa_outputs_(scope / "qa_outputs", config_.hidden_size, 2, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = encoder_input_names();
    names.back() = "start_positions";
    names.push_back("end_positions");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    NamedTensors extra;
    const Tensor hidden = encode(inputs, context, extra);
    return joined(span_outputs(qa_outputs_(hidden), inputs), extra);
  }

 private:
  Linear qa_outputs_;
};

// Transform and decoder over the vocabulary: cls.predictions.
class BertPredictions {
 public:
  BertPredictions(const Scope& scope, const BertConfig& c, const Embedding& words)
      : activation_(c.hidden_act),
        dense_(scope / "transform" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        norm_(scope / "transform" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        decoder_(scope, c.tie_word_embeddings ? "bias" : "decoder.bias", "decoder.weight", words, c.tie_word_embeddings,
                 c.hidden_size, c.vocab_size, c.initializer_range) {}
  Tensor operator()(const Tensor& hidden) const { return decoder_(norm_(activation(activation_, dense_(hidden)))); }

 private:
  std::string activation_;
  Linear dense_;
  LayerNorm norm_;
  TiedDecoder decoder_;
};

class BertForMaskedLM : public BertModelWithHead {
 public:
  BertForMaskedLM(const Config& config, const Scope& scope)
      : BertModelWithHead(config, scope, false),
        predictions_(scope / "cls" / "predictions", config_, bert_.embeddings().word_embeddings) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    NamedTensors extra;
    const Tensor hidden = encode(inputs, context, extra);
    return joined(token_outputs(predictions_(hidden), inputs), extra);
  }

 private:
  BertPredictions predictions_;
};

struct BertWriter {
  BertWriter(const Config& given, const Scope& scope)
      : config(given),
        bert(scope / "bert", config, false),
        predictions(scope / "cls" / "predictions", config, bert.embeddings().word_embeddings) {}
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const { return bert(inputs, context); }
  Tensor logits(const Tensor& hidden) const { return predictions(hidden); }

  BertConfig config;
  BertEncoder bert;
  BertPredictions predictions;
};

class BertForPreTraining : public BertModelWithHead {
 public:
  BertForPreTraining(const Config& config, const Scope& scope)
      : BertModelWithHead(config, scope, true),
        predictions_(scope / "cls" / "predictions", config_, bert_.embeddings().word_embeddings),
        seq_relationship_(scope / "cls" / "seq_relationship", config_.hidden_size, 2, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = encoder_input_names();
    names.push_back("next_sentence_label");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    NamedTensors extra;
    const Tensor hidden = encode(inputs, context, extra);
    const Tensor words = predictions_(hidden), order = seq_relationship_((*pooler_)(hidden));
    const Tensor labels = inputs.find("labels"), next = inputs.find("next_sentence_label");
    Tensor loss;
    if (labels.defined() && next.defined()) loss = mean_cross_entropy(words, labels) + mean_cross_entropy(order, next);
    return joined(with_loss(loss, {{"prediction_logits", words}, {"seq_relationship_logits", order}}), extra);
  }

 private:
  BertPredictions predictions_;
  Linear seq_relationship_;
};

class BertForNextSentencePrediction : public BertModelWithHead {
 public:
  BertForNextSentencePrediction(const Config& config, const Scope& scope)
      : BertModelWithHead(config, scope, true),
        seq_relationship_(scope / "cls" / "seq_relationship", config_.hidden_size, 2, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    NamedTensors extra;
    const Tensor hidden = encode(inputs, context, extra);
    return joined(token_outputs(seq_relationship_((*pooler_)(hidden)), inputs), extra);
  }

 private:
  Linear seq_relationship_;
};

class BertForMultipleChoice : public BertModelWithHead {
 public:
  BertForMultipleChoice(const Config& config, const Scope& scope)
      : BertModelWithHead(config, scope, true),
        dropout_(config_.classifier_dropout),
        classifier_(scope / "classifier", config_.hidden_size, 1, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    NamedTensors extra;
    const Tensor pooled = (*pooler_)(encode(flattened_choices(inputs), context, extra));
    return joined(choice_outputs(classifier_(dropout_(pooled, context)), choices, inputs), extra);
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

}  // namespace

Family bert_family() {
  return {"bert",
          "bert",
          {{"BertModel", {"feature-extraction"}, make_model<BertModel>},
           {"BertForSequenceClassification",
            {"text-classification", "zero-shot-classification"},
            make_model<BertForSequenceClassification>},
           {"BertForTokenClassification", {"token-classification"}, make_model<BertForTokenClassification>},
           {"BertForQuestionAnswering", {"question-answering"}, make_model<BertForQuestionAnswering>},
           {"BertForMaskedLM", {"fill-mask"}, make_model<BertForMaskedLM>},
           {"BertLMHeadModel", {"text-generation"}, make_model<EncoderForCausalLM<BertWriter>>},
           {"BertForPreTraining", {"pretraining"}, make_model<BertForPreTraining>},
           {"BertForNextSentencePrediction", {"next-sentence-prediction"}, make_model<BertForNextSentencePrediction>},
           {"BertForMultipleChoice", {"multiple-choice"}, make_model<BertForMultipleChoice>}}};
}

}  // namespace transom
