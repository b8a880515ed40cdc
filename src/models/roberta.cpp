// SPDX-License-Identifier: Apache-2.0
// RoBERTa (Liu et al., 2019), and CamemBERT and XLM-RoBERTa, which are RoBERTa with other tokenizers: BERT's encoder,
// with positions that begin behind the padding id, and heads of its own.
#include "models/encoder_causal_lm.h"
#include "models/encoder_model.h"
#include "models/family.h"

namespace transom {
namespace {

struct RobertaBody : BertEncoder {
  static constexpr const char* kPrefix = "roberta";
  RobertaBody(const Scope& scope, const BertConfig& config) : BertEncoder(scope, config, true) {}
};

using RobertaWithHead = EncoderModel<RobertaBody>;

class RobertaModel : public RobertaWithHead {
 public:
  RobertaModel(const Config& config, const Scope& scope)
      : RobertaWithHead(config, scope, ""), pooler_(scope / "pooler", config_) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}, {"pooler_output", pooler_(hidden)}};
    });
  }

 private:
  BertPooler pooler_;
};

class RobertaForSequenceClassification : public RobertaWithHead {
 public:
  RobertaForSequenceClassification(const Config& config, const Scope& scope)
      : RobertaWithHead(config, scope),
        dropout_(config_.classifier_dropout),
        dense_(scope / "classifier" / "dense", config_.hidden_size, config_.hidden_size, config_.new_weights()),
        out_proj_(scope / "classifier" / "out_proj", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      const Tensor x = tanh(dense_(dropout_(first_token(hidden), context)));  // [B, D] of <s>
      return sequence_classification_outputs(out_proj_(dropout_(x, context)), inputs, config_.problem_type);
    });
  }

 private:
  Dropout dropout_;
  Linear dense_, out_proj_;
};

// A transform and a decoder over the vocabulary. `scope` is that of the model.
class RobertaLMHead {
 public:
  RobertaLMHead(const Scope& scope, const BertConfig& c, const Embedding& words)
      : dense_(scope / "lm_head" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        layer_norm_(scope / "lm_head" / "layer_norm", c.hidden_size, c.layer_norm_eps),
        decoder_(scope / "lm_head", c.tie_word_embeddings ? "bias" : "decoder.bias", "decoder.weight", words,
                 c.tie_word_embeddings, c.hidden_size, c.vocab_size, c.initializer_range) {}
  Tensor operator()(const Tensor& hidden) const { return decoder_(layer_norm_(gelu(dense_(hidden)))); }

 private:
  Linear dense_;
  LayerNorm layer_norm_;
  TiedDecoder decoder_;
};

class RobertaForMaskedLM : public RobertaWithHead {
 public:
  RobertaForMaskedLM(const Config& config, const Scope& scope)
      : RobertaWithHead(config, scope), lm_head_(scope, config_, body_.word_embeddings()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) { return token_outputs(lm_head_(hidden), inputs); });
  }

 private:
  RobertaLMHead lm_head_;
};

class RobertaForMultipleChoice : public RobertaWithHead {
 public:
  RobertaForMultipleChoice(const Config& config, const Scope& scope)
      : RobertaWithHead(config, scope),
        pooler_(scope / "roberta" / "pooler", config_),
        dropout_(config_.hidden_dropout_prob),
        classifier_(scope / "classifier", config_.hidden_size, 1, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    return with_head(flattened_choices(inputs), context, [&](const Tensor& hidden) {
      return choice_outputs(classifier_(dropout_(pooler_(hidden), context)), choices, inputs);
    });
  }

 private:
  BertPooler pooler_;
  Dropout dropout_;
  Linear classifier_;
};

Family family_named(const std::string& model_type, const std::string& prefix) {
  return {
      model_type,
      "roberta",
      {{prefix + "Model", {"feature-extraction"}, make_model<RobertaModel>},
       {prefix + "ForSequenceClassification",
        {"text-classification", "zero-shot-classification"},
        make_model<RobertaForSequenceClassification>},
       {prefix + "ForTokenClassification",
        {"token-classification"},
        make_model<EncoderForTokenClassification<RobertaBody>>},
       {prefix + "ForQuestionAnswering", {"question-answering"}, make_model<EncoderForQuestionAnswering<RobertaBody>>},
       {prefix + "ForMaskedLM", {"fill-mask"}, make_model<RobertaForMaskedLM>},
       {prefix + "ForCausalLM", {"text-generation"}, make_model<EncoderForCausalLM<RobertaBody, RobertaLMHead>>},
       {prefix + "ForMultipleChoice", {"multiple-choice"}, make_model<RobertaForMultipleChoice>}}};
}

}  // namespace

Family roberta_family() { return family_named("roberta", "Roberta"); }
Family camembert_family() { return family_named("camembert", "Camembert"); }
Family xlm_roberta_family() { return family_named("xlm-roberta", "XLMRoberta"); }

}  // namespace transom
