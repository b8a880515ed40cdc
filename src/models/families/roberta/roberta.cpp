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
  return {{prefix + "Model", body_head({"feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
           make_model<RobertaModel>},
          {prefix + "ForSequenceClassification", sequence_classification_head({"classifier"}),
           make_model<RobertaSequenceClassifier<RobertaBody>>},
          {prefix + "ForTokenClassification", token_classification_head({"classifier"}),
           make_model<EncoderForTokenClassification<RobertaBody>>},
          {prefix + "ForQuestionAnswering", question_answering_head({"qa_outputs"}),
           make_model<EncoderForQuestionAnswering<RobertaBody>>},
          {prefix + "ForMaskedLM", masked_lm_head({"lm_head"}, {"lm_head.decoder"}),
           make_model<EncoderForMaskedLM<RobertaBody, RobertaLMHead>>},
          {prefix + "ForCausalLM", causal_lm_head({"lm_head"}, {"lm_head.decoder"}),
           make_model<EncoderForCausalLM<RobertaBody, RobertaLMHead>>},
          {prefix + "ForMultipleChoice", multiple_choice_head({"roberta.pooler", "classifier"}),
           make_model<RobertaMultipleChoice<RobertaBody>>}};
}

}  // namespace

static Family roberta_family() {
  return {.model_type = "roberta",
          .base_prefix = "roberta",
          .architectures = roberta_architectures("Roberta"),
          .inputs = typed_text_inputs(2, FamilyInput::Export::kNever),
          .processors = {.tokenizer = "Roberta",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}, /*behind_padding=*/true},
                         .spaced_words = true,
                         .spans = false},
          .weights = {.lora_targets = {"query", "value"},
                      .late_parts = {LatePart{"embeddings", "position_embeddings"}},
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none,
                      .adapter_targets = {.ia3 = {"key", "value", "output.dense"},
                                          .ia3_feedforward = {"output.dense"},
                                          .norms = {},
                                          .adalora = {"query", "key", "value", "dense"}}},
          .foreign = {.gguf = none, .keras = KerasNames{.body = "roberta"}, .flax = FlaxNames{}},
          .planning = {.fused_attention = false}};
}
static Family camembert_family() {
  return {.model_type = "camembert",
          .base_prefix = "roberta",
          .architectures = roberta_architectures("Camembert"),
          .inputs = typed_text_inputs(2, FamilyInput::Export::kNever),
          .processors = {.tokenizer = "Camembert",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}, /*behind_padding=*/true},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = {LatePart{"embeddings", "position_embeddings"},
                                     LatePart{"", "roberta", /*from_version_5=*/true}},
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = KerasNames{.body = "roberta"}, .flax = none},
          .planning = {.fused_attention = false}};
}
static Family xlm_roberta_family() {
  return {.model_type = "xlm-roberta",
          .base_prefix = "roberta",
          .architectures = roberta_architectures("XLMRoberta"),
          .inputs = typed_text_inputs(2, FamilyInput::Export::kNever),
          .processors = {.tokenizer = "XLMRoberta",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}, /*behind_padding=*/true},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = {"query", "value"},
                      .late_parts = {LatePart{"embeddings", "position_embeddings"},
                                     LatePart{"", "roberta", /*from_version_5=*/true}},
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = KerasNames{.body = "roberta"}, .flax = FlaxNames{}},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kRobertaFamilies{roberta_family, camembert_family, xlm_roberta_family};

}  // namespace transom
