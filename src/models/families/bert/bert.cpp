// SPDX-License-Identifier: Apache-2.0
// BERT and its heads. The encoder is in bert_encoder.h.
#include "models/families/bert/bert_pooled.h"
#include "models/families/bert/bert_predictions.h"
#include "models/family.h"
#include "models/shared/encoder_causal_lm.h"
#include "models/shared/encoder_model.h"

namespace transom {
namespace {

struct BertBody : BertEncoder {
  static constexpr const char* kPrefix = "bert";
  BertBody(const Scope& scope, const BertConfig& config) : BertEncoder(scope, config, false) {}
};

using BertWithPooler = EncoderWithPooler<BertBody>;

class BertForPreTraining : public BertWithPooler {
 public:
  BertForPreTraining(const Config& config, const Scope& scope)
      : BertWithPooler(config, scope),
        predictions_(scope, config_, body_.word_embeddings()),
        seq_relationship_(scope / "cls" / "seq_relationship", config_.hidden_size, 2, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = BertBody::input_names("labels");
    names.push_back("next_sentence_label");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return pre_training_outputs(predictions_, hidden, seq_relationship_(pooler_(hidden, context), context), inputs,
                                  context);
    });
  }

 private:
  BertPredictions predictions_;
  Linear seq_relationship_;
};

class BertForNextSentencePrediction : public BertWithPooler {
 public:
  BertForNextSentencePrediction(const Config& config, const Scope& scope)
      : BertWithPooler(config, scope),
        seq_relationship_(scope / "cls" / "seq_relationship", config_.hidden_size, 2, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return token_outputs(seq_relationship_(pooler_(hidden, context), context), inputs, context);
    });
  }

 private:
  Linear seq_relationship_;
};

class BertForMultipleChoice : public BertWithPooler {
 public:
  BertForMultipleChoice(const Config& config, const Scope& scope)
      : BertWithPooler(config, scope),
        dropout_(config_.classifier_dropout),
        classifier_(scope / "classifier", config_.hidden_size, 1, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    return with_head(flattened_choices(inputs), context, [&](const Tensor& hidden) {
      return choice_outputs(classifier_(dropout_(pooler_(hidden, context), context), context), choices, inputs,
                            context);
    });
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

GgufFamily bert_gguf() {
  constexpr auto kNumber = GgufUsual::Is::kNumber, kKey = GgufUsual::Is::kKey, kNotRead = GgufUsual::Is::kNotRead;
  return {
      .architecture = "bert",
      .model_class = "BertModel",
      .activations = {"gelu"},
      .names = {.whole = {{"token_embd", "embeddings.word_embeddings"},
                          {"position_embd", "embeddings.position_embeddings"},
                          {"token_types", "embeddings.token_type_embeddings"},
                          {"token_embd_norm", "embeddings.LayerNorm"}},
                .stacks = {{"blk.",
                            "encoder.layer.",
                            {{"attn_q", "attention.self.query"},
                             {"attn_k", "attention.self.key"},
                             {"attn_v", "attention.self.value"},
                             {"attn_output", "attention.output.dense"},
                             {"attn_output_norm", "attention.output.LayerNorm"},
                             {"ffn_up", "intermediate.dense"},
                             {"ffn_down", "output.dense"},
                             {"layer_output_norm", "output.LayerNorm"}}}},
                .dropped = {"pooler.dense"}},
      .keys = {{.key = "block_count", .field = "num_hidden_layers"},
               {.key = "context_length", .field = "max_position_embeddings", .written = {kNumber, 2048}},
               {.key = "embedding_length", .field = "hidden_size"},
               {.key = "feed_forward_length", .field = "intermediate_size", .written = {kKey, 4, "embedding_length"}},
               {.key = "attention.head_count", .field = "num_attention_heads"},
               {.key = "vocab_size", .field = "vocab_size", .read = {kNotRead}},
               {.key = "attention.layer_norm_epsilon",
                .field = "layer_norm_eps",
                .kind = GgufKey::Kind::kNumber,
                .written = {kNumber, 1e-12}},
               {.key = "attention.causal", .kind = GgufKey::Kind::kTruth, .written = {kNumber, 0}, .read = {kNotRead}},
               {.key = "tokenizer.ggml.token_type_count",
                .field = "type_vocab_size",
                .written = {kNumber, 2},
                .read = {kNumber, 2}}},
      .stands_for = R"({"hidden_act": "gelu", "tie_word_embeddings": true})",
      .is_encoder = true};
}

}  // namespace

static Family bert_family() {
  return {
      .model_type = "bert",
      .base_prefix = "bert",
      .architectures = {{"BertModel",
                         body_head({"feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                         make_model<PooledEncoder<BertBody>>},
                        {"BertForSequenceClassification", sequence_classification_head({"bert.pooler", "classifier"}),
                         make_model<PooledSequenceClassifier<BertBody>>},
                        {"BertForTokenClassification", token_classification_head({"classifier"}),
                         make_model<EncoderForTokenClassification<BertBody>>},
                        {"BertForQuestionAnswering", question_answering_head({"qa_outputs"}),
                         make_model<EncoderForQuestionAnswering<BertBody>>},
                        {"BertForMaskedLM", masked_lm_head({"cls"}, {"cls.predictions.decoder"}),
                         make_model<EncoderForMaskedLM<BertBody, BertPredictions>>},
                        {"BertLMHeadModel",
                         causal_lm_head({"cls"}, {"cls.predictions.decoder"}, LossDivisor::kAllLabels),
                         make_model<EncoderForCausalLM<BertBody, BertPredictions>>},
                        {"BertForPreTraining",
                         {.task = HeadTask::kPreTraining,
                          .pipelines = {"pretraining"},
                          .labels = HeadLabels::kTokens,
                          .modules = {"bert.pooler", "cls"},
                          .vocabulary = {"cls.predictions.decoder"},
                          .outputs = {"prediction_logits", "seq_relationship_logits"},
                          .second_label = "next_sentence_label"},
                         make_model<BertForPreTraining>},
                        {"BertForNextSentencePrediction",
                         {.task = HeadTask::kNextSentence,
                          .pipelines = {"next-sentence-prediction"},
                          .labels = HeadLabels::kOrder,
                          .modules = {"bert.pooler", "cls"},
                          .vocabulary = none,
                          .outputs = {"logits"}},
                         make_model<BertForNextSentencePrediction>},
                        {"BertForMultipleChoice", multiple_choice_head({"bert.pooler", "classifier"}),
                         make_model<BertForMultipleChoice>}},
      .inputs = typed_text_inputs(2),
      .processors = {.tokenizer = "Bert",
                     .image_processor = none,
                     .positions = PositionLimit{{"max_position_embeddings"}},
                     .spaced_words = false,
                     .spans = false},
      .weights = {.lora_targets = {"query", "value"},
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none,
                  .adapter_targets = {.ia3 = {"key", "value", "output.dense"},
                                      .ia3_feedforward = {"output.dense"},
                                      .norms = {}}},
      .foreign = {.gguf = bert_gguf(),
                  .keras =
                      KerasNames{.body = "bert",
                                 .renamed = {{"cls/predictions", "mlm___cls"}, {"cls/seq_relationship", "nsp___cls"}}},
                  .flax = FlaxNames{.without = {"BertLMHeadModel"}},
                  .google = GoogleFiles{"bert_config.json", HeadTask::kPreTraining}},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kBertFamily{bert_family};

}  // namespace transom
