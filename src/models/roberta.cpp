// SPDX-License-Identifier: Apache-2.0
// RoBERTa (Liu et al., 2019), and CamemBERT and XLM-RoBERTa, which are RoBERTa with other tokenizers: BERT's encoder,
// with positions that begin behind the padding id, and heads of its own.
#include "base/error.h"
#include "models/bert_encoder.h"
#include "models/encoder_causal_lm.h"
#include "models/encoder_heads.h"
#include "models/family.h"

namespace transom {
namespace {

class RobertaModelWithHead : public Model {
 protected:
  RobertaModelWithHead(const Config& config, const Scope& scope, bool pooled, const std::string& body = "roberta")
      : config_(config), roberta_(body.empty() ? scope : scope / body, config_, true) {
    if (pooled) pooler_.emplace((body.empty() ? scope : scope / body) / "pooler", config_);
  }
  std::vector<std::string> input_names() const override { return encoder_input_names(); }
  // The outputs of a head on the hidden states, and the states of all layers if they are asked for.
  template <typename Head>
  NamedTensors with_head(const NamedTensors& inputs, ForwardContext& context, Head&& head) const {
    const EncoderOutput result = roberta_(inputs, context);
    NamedTensors outputs = head(result.last_hidden_state);
    add_hidden_states(outputs, result.hidden_states);
    return outputs;
  }

  BertConfig config_;
  BertEncoder roberta_;
  std::optional<BertPooler> pooler_;
};

class RobertaModel : public RobertaModelWithHead {
 public:
  RobertaModel(const Config& config, const Scope& scope) : RobertaModelWithHead(config, scope, true, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}, {"pooler_output", (*pooler_)(hidden)}};
    });
  }
};

class RobertaForSequenceClassification : public RobertaModelWithHead {
 public:
  RobertaForSequenceClassification(const Config& config, const Scope& scope)
      : RobertaModelWithHead(config, scope, false),
        dropout_(config_.classifier_dropout),
        dense_(scope / "classifier" / "dense", config_.hidden_size, config_.hidden_size, config_.new_weights()),
        out_proj_(scope / "classifier" / "out_proj", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      const Tensor first = squeeze(slice(hidden, 1, 0, 1), 1);  // [B, D] of <s>
      const Tensor x = tanh(dense_(dropout_(first, context)));
      return sequence_classification_outputs(out_proj_(dropout_(x, context)), inputs, config_.problem_type);
    });
  }

 private:
  Dropout dropout_;
  Linear dense_, out_proj_;
};

class RobertaForTokenClassification : public RobertaModelWithHead {
 public:
  RobertaForTokenClassification(const Config& config, const Scope& scope)
      : RobertaModelWithHead(config, scope, false),
        dropout_(config_.classifier_dropout),
        classifier_(scope / "classifier", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return token_outputs(classifier_(dropout_(hidden, context)), inputs);
    });
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

class RobertaForQuestionAnswering : public RobertaModelWithHead {
 public:
  RobertaForQuestionAnswering(const Config& config, const Scope& scope)
      : RobertaModelWithHead(config, scope, false),
        qa_outputs_(scope / "qa_outputs", config_.hidden_size, 2, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = encoder_input_names();
    names.back() = "start_positions";
    names.push_back("end_positions");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) { return span_outputs(qa_outputs_(hidden), inputs); });
  }

 private:
  Linear qa_outputs_;
};

// A transform and a decoder over the vocabulary.
class RobertaLMHead {
 public:
  RobertaLMHead(const Scope& scope, const BertConfig& c, const Embedding& words)
      : dense_(scope / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        layer_norm_(scope / "layer_norm", c.hidden_size, c.layer_norm_eps),
        decoder_(scope, c.tie_word_embeddings ? "bias" : "decoder.bias", "decoder.weight", words, c.tie_word_embeddings,
                 c.hidden_size, c.vocab_size, c.initializer_range) {}
  Tensor operator()(const Tensor& hidden) const { return decoder_(layer_norm_(gelu(dense_(hidden)))); }

 private:
  Linear dense_;
  LayerNorm layer_norm_;
  TiedDecoder decoder_;
};

class RobertaForMaskedLM : public RobertaModelWithHead {
 public:
  RobertaForMaskedLM(const Config& config, const Scope& scope)
      : RobertaModelWithHead(config, scope, false),
        lm_head_(scope / "lm_head", config_, roberta_.embeddings().word_embeddings) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) { return token_outputs(lm_head_(hidden), inputs); });
  }

 private:
  RobertaLMHead lm_head_;
};

struct RobertaWriter {
  RobertaWriter(const Config& given, const Scope& scope)
      : config(given),
        roberta(scope / "roberta", config, true),
        lm_head(scope / "lm_head", config, roberta.embeddings().word_embeddings) {}
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    return roberta(inputs, context);
  }
  Tensor logits(const Tensor& hidden) const { return lm_head(hidden); }

  BertConfig config;
  BertEncoder roberta;
  RobertaLMHead lm_head;
};

class RobertaForMultipleChoice : public RobertaModelWithHead {
 public:
  RobertaForMultipleChoice(const Config& config, const Scope& scope)
      : RobertaModelWithHead(config, scope, true),
        dropout_(config_.hidden_dropout_prob),
        classifier_(scope / "classifier", config_.hidden_size, 1, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    return with_head(flattened_choices(inputs), context, [&](const Tensor& hidden) {
      return choice_outputs(classifier_(dropout_((*pooler_)(hidden), context)), choices, inputs);
    });
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

Family family_named(const std::string& model_type, const std::string& prefix) {
  return {model_type,
          "roberta",
          {{prefix + "Model", {"feature-extraction"}, make_model<RobertaModel>},
           {prefix + "ForSequenceClassification",
            {"text-classification", "zero-shot-classification"},
            make_model<RobertaForSequenceClassification>},
           {prefix + "ForTokenClassification", {"token-classification"}, make_model<RobertaForTokenClassification>},
           {prefix + "ForQuestionAnswering", {"question-answering"}, make_model<RobertaForQuestionAnswering>},
           {prefix + "ForMaskedLM", {"fill-mask"}, make_model<RobertaForMaskedLM>},
           {prefix + "ForCausalLM", {"text-generation"}, make_model<EncoderForCausalLM<RobertaWriter>>},
           {prefix + "ForMultipleChoice", {"multiple-choice"}, make_model<RobertaForMultipleChoice>}}};
}

}  // namespace

Family roberta_family() { return family_named("roberta", "Roberta"); }
Family camembert_family() { return family_named("camembert", "Camembert"); }
Family xlm_roberta_family() { return family_named("xlm-roberta", "XLMRoberta"); }

}  // namespace transom
