// SPDX-License-Identifier: Apache-2.0
// RoBERTa (Liu et al., 2019), and CamemBERT and XLM-RoBERTa, which are RoBERTa with other tokenizers: BERT's encoder,
// with positions that begin behind the padding id, and heads of its own.
#include "models/families/roberta/roberta_heads.h"
#include "models/family.h"
#include "models/shared/encoder_causal_lm.h"

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
      return NamedTensors{{"last_hidden_state", hidden}, {"pooler_output", pooler_(hidden, context)}};
    });
  }

 private:
  BertPooler pooler_;
};

std::vector<Architecture> roberta_architectures(const std::string& prefix) {
  return {
      {prefix + "Model", {"feature-extraction"}, make_model<RobertaModel>},
      {prefix + "ForSequenceClassification",
       {"text-classification", "zero-shot-classification"},
       make_model<RobertaSequenceClassifier<RobertaBody>>},
      {prefix + "ForTokenClassification",
       {"token-classification"},
       make_model<EncoderForTokenClassification<RobertaBody>>},
      {prefix + "ForQuestionAnswering", {"question-answering"}, make_model<EncoderForQuestionAnswering<RobertaBody>>},
      {prefix + "ForMaskedLM", {"fill-mask"}, make_model<EncoderForMaskedLM<RobertaBody, RobertaLMHead>>},
      {prefix + "ForCausalLM", {"text-generation"}, make_model<EncoderForCausalLM<RobertaBody, RobertaLMHead>>},
      {prefix + "ForMultipleChoice", {"multiple-choice"}, make_model<RobertaMultipleChoice<RobertaBody>>}};
}

}  // namespace

Family roberta_family() {
  return {.model_type = "roberta",
          .base_prefix = "roberta",
          .architectures = roberta_architectures("Roberta"),
          .processors = {.tokenizer = "Roberta",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}, /*behind_padding=*/true}},
          .weights = {.lora_targets = {"query", "value"},
                      .late_parts = {LatePart{"embeddings", "position_embeddings"}},
                      .awq_activation = none},
          .foreign = {.gguf = none, .keras = KerasNames{.body = "roberta"}, .flax = FlaxNames{}}};
}
Family camembert_family() {
  return {.model_type = "camembert",
          .base_prefix = "roberta",
          .architectures = roberta_architectures("Camembert"),
          .processors = {.tokenizer = "Camembert",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}, /*behind_padding=*/true}},
          .weights = {.lora_targets = none,
                      .late_parts = {LatePart{"embeddings", "position_embeddings"},
                                     LatePart{"", "roberta", /*from_version_5=*/true}},
                      .awq_activation = none},
          .foreign = {.gguf = none, .keras = KerasNames{.body = "roberta"}, .flax = none}};
}
Family xlm_roberta_family() {
  return {.model_type = "xlm-roberta",
          .base_prefix = "roberta",
          .architectures = roberta_architectures("XLMRoberta"),
          .processors = {.tokenizer = "XLMRoberta",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}, /*behind_padding=*/true}},
          .weights = {.lora_targets = {"query", "value"},
                      .late_parts = {LatePart{"embeddings", "position_embeddings"},
                                     LatePart{"", "roberta", /*from_version_5=*/true}},
                      .awq_activation = none},
          .foreign = {.gguf = none, .keras = KerasNames{.body = "roberta"}, .flax = FlaxNames{}}};
}

}  // namespace transom
