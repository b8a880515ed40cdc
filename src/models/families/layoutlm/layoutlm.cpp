// SPDX-License-Identifier: Apache-2.0
// LayoutLM (Xu et al., 2019): BERT over the words of a page, each of which also stands in a box of it. Corners, heights
// and widths of boxes have tables of their own. B batch, T time, D hidden.
#include "base/error.h"
#include "models/families/bert/bert_pooled.h"
#include "models/families/bert/bert_predictions.h"
#include "models/families/layoutlm/word_boxes.h"
#include "models/family.h"

namespace transom {
namespace {

struct LayoutLMConfig : BertConfig {
  explicit LayoutLMConfig(const Config& config)
      : BertConfig(config), max_2d_position_embeddings(config.get_int("max_2d_position_embeddings", 1024)) {
    refuse_unless(config, "is_decoder", "false");
    classifier_dropout = hidden_dropout_prob;
  }
  int64_t max_2d_position_embeddings;
};

class LayoutLMEmbeddings {
 public:
  LayoutLMEmbeddings(const Scope& scope, const LayoutLMConfig& c)
      : word_embeddings(scope / "word_embeddings", c.vocab_size, c.hidden_size, c.initializer_range,
                        c.pad_token_id.value_or(-1)),
        position_embeddings_(scope / "position_embeddings", c.max_position_embeddings, c.hidden_size,
                             c.initializer_range),
        boxes_(scope, {.count = c.max_2d_position_embeddings,
                       .corner_width = c.hidden_size,
                       .extent_width = c.hidden_size,
                       .deviation = c.initializer_range}),
        token_type_embeddings_(scope / "token_type_embeddings", c.type_vocab_size, c.hidden_size, c.initializer_range),
        layer_norm_(scope / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        dropout_(c.hidden_dropout_prob) {}

  Tensor operator()(const EncoderInputs& in, const Tensor& boxes, ForwardContext& context) const {  // [B, T, D]
    const Tensor words = in.input_ids.defined() ? word_embeddings(in.input_ids, context) : in.inputs_embeds;
    const Tensor types = in.token_type_ids.defined() ? in.token_type_ids : zeros({1, in.length}, DType::kInt64);
    Tensor x = words + position_embeddings_(in.position_ids, context);
    for (const Tensor& part : boxes_(boxes, context)) x = x + part;
    return dropout_(layer_norm_(x + token_type_embeddings_(types, context), context), context);
  }

  Embedding word_embeddings;

 private:
  Embedding position_embeddings_;
  BoxEmbeddings boxes_;
  Embedding token_type_embeddings_;
  LayerNorm layer_norm_;
  Dropout dropout_;
};

class LayoutLMBody {
 public:
  using Settings = LayoutLMConfig;
  static constexpr const char* kPrefix = "layoutlm";
  // Nobody who lays several texts into a row lays their boxes beside them.
  static constexpr bool kTextsInRows = false;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids", "bbox", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds", target};
  }

  LayoutLMBody(const Scope& scope, const LayoutLMConfig& c) : config_(c), embeddings_(scope / "embeddings", c) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c, i);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const EncoderInputs in = encoder_inputs(inputs, config_.max_position_embeddings);
    return through_layers(layers_, embeddings_(in, word_boxes(inputs, in), context), in.mask, context);
  }
  const Embedding& word_embeddings() const { return embeddings_.word_embeddings; }

 private:
  LayoutLMConfig config_;
  LayoutLMEmbeddings embeddings_;
  std::vector<BertLayer> layers_;
};

// Checkpoints of all classes have a pooler, also of those whose heads do not read it.
class LayoutLMWithIdlePooler : public LayoutLMBody {
 public:
  LayoutLMWithIdlePooler(const Scope& scope, const LayoutLMConfig& c)
      : LayoutLMBody(scope, c), pooler_(scope / "pooler", c) {}

 private:
  BertPooler pooler_;
};

}  // namespace

static Family layoutlm_family() {
  return {.model_type = "layoutlm",
          .base_prefix = "layoutlm",
          .architectures =
              {{"LayoutLMModel", body_head({"feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                make_model<PooledEncoder<LayoutLMBody>>},
               {"LayoutLMForSequenceClassification", sequence_classification_head({"layoutlm.pooler", "classifier"}),
                make_model<PooledSequenceClassifier<LayoutLMBody>>},
               {"LayoutLMForTokenClassification", token_classification_head({"layoutlm.pooler", "classifier"}),
                make_model<EncoderForTokenClassification<LayoutLMWithIdlePooler>>},
               {"LayoutLMForQuestionAnswering", document_question_answering_head({"layoutlm.pooler", "qa_outputs"}),
                make_model<EncoderForQuestionAnswering<LayoutLMWithIdlePooler>>},
               {"LayoutLMForMaskedLM", masked_lm_head({"layoutlm.pooler", "cls"}, {"cls.predictions.decoder"}),
                make_model<EncoderForMaskedLM<LayoutLMWithIdlePooler, BertPredictions>>}},
          .inputs = boxed_text_inputs(typed_text_inputs(2)),
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
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kLayoutLMFamily{layoutlm_family};

}  // namespace transom
