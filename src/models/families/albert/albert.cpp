// SPDX-License-Identifier: Apache-2.0
// ALBERT (Lan et al., 2020): BERT whose layers share their parameters in groups, over narrow embeddings that are mapped
// to the hidden width. B batch, T time, D hidden, E embedding width.

#include "base/error.h"
#include "models/family.h"
#include "models/shared/encoder_model.h"

namespace transom {
namespace {

struct AlbertConfig : BertConfig {
  explicit AlbertConfig(const Config& config)
      : BertConfig(with_defaults(config, R"({"vocab_size": 30000, "hidden_size": 4096, "num_attention_heads": 64,
                                             "intermediate_size": 16384, "hidden_act": "gelu_new",
                                             "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0})")),
        embedding_size(config.get_int("embedding_size", 128)),
        num_hidden_groups(config.get_int("num_hidden_groups", 1)),
        inner_group_num(config.get_int("inner_group_num", 1)) {
    classifier_dropout = config.get_float("classifier_dropout_prob", 0.1);
    if (num_hidden_groups < 1 || num_hidden_groups > num_hidden_layers)
      fail("config.json: num_hidden_groups: expected 1 to num_hidden_layers {}, found {}", num_hidden_layers,
           num_hidden_groups);
  }
  int64_t embedding_size, num_hidden_groups, inner_group_num;
};

class AlbertLayer {
 public:
  AlbertLayer(const Scope& scope, const AlbertConfig& c)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        activation_(c.hidden_act),
        full_layer_layer_norm_(scope / "full_layer_layer_norm", c.hidden_size, c.layer_norm_eps),
        query_(scope / "attention" / "query", c.hidden_size, c.hidden_size, c.new_weights()),
        key_(scope / "attention" / "key", c.hidden_size, c.hidden_size, c.new_weights()),
        value_(scope / "attention" / "value", c.hidden_size, c.hidden_size, c.new_weights()),
        dense_(scope / "attention" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        attention_norm_(scope / "attention" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        ffn_(scope / "ffn", c.hidden_size, c.intermediate_size, c.new_weights()),
        ffn_output_(scope / "ffn_output", c.intermediate_size, c.hidden_size, c.new_weights()),
        attention_dropout_(c.attention_probs_dropout_prob),
        output_dropout_(c.hidden_dropout_prob) {}

  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {  // [B, T, D] -> [B, T, D]
    Tensor attended;
    {
      const ModuleScope module(path_ + ".attention");
      attended = multi_head_attention(query_(x, context), key_(x, context), value_(x, context), heads_, mask,
                                      attention_dropout_, context);
    }
    const Tensor h = attention_norm_(x + output_dropout_(dense_(attended, context), context), context);
    return full_layer_layer_norm_(ffn_output_(activation(activation_, ffn_(h, context)), context) + h, context);
  }

 private:
  std::string path_;
  int64_t heads_;
  std::string activation_;
  LayerNorm full_layer_layer_norm_;
  Linear query_, key_, value_, dense_;
  LayerNorm attention_norm_;
  Linear ffn_, ffn_output_;
  Dropout attention_dropout_, output_dropout_;
};

class AlbertBody {
 public:
  using Settings = AlbertConfig;
  static constexpr const char* kPrefix = "albert";
  static constexpr bool kTextsInRows = true;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds", target};
  }

  AlbertBody(const Scope& scope, const AlbertConfig& c)
      : max_position_embeddings_(c.max_position_embeddings),
        embeddings_(scope / "embeddings", c.with_width(c.embedding_size)),
        embedding_hidden_mapping_in_(scope / "encoder" / "embedding_hidden_mapping_in", c.embedding_size, c.hidden_size,
                                     c.new_weights()) {
    std::vector<std::vector<AlbertLayer>> groups(static_cast<size_t>(c.num_hidden_groups));
    for (int64_t group = 0; group < c.num_hidden_groups; ++group)
      for (int64_t i = 0; i < c.inner_group_num; ++i)
        groups[static_cast<size_t>(group)].emplace_back(
            scope / "encoder" / "albert_layer_groups" / group / "albert_layers" / i, c);
    // Layers share their parameters, so that a copy of a layer is the layer again.
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      for (const AlbertLayer& layer : groups[static_cast<size_t>(i * c.num_hidden_groups / c.num_hidden_layers)])
        layers_.push_back(layer);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const EncoderInputs in = encoder_inputs(inputs, max_position_embeddings_, std::nullopt, context.texts);
    const Tensor x = embeddings_(in.input_ids, in.inputs_embeds, in.token_type_ids, in.position_ids, context);
    return through_layers(layers_, embedding_hidden_mapping_in_(x, context), in.mask, context);
  }
  const Embedding& word_embeddings() const { return embeddings_.word_embeddings; }

 private:
  int64_t max_position_embeddings_;
  BertEmbeddings embeddings_;
  Linear embedding_hidden_mapping_in_;
  std::vector<AlbertLayer> layers_;
};

// The body with the pooler that some of its heads read, a plain dense layer.
class AlbertWithPooler : public EncoderModel<AlbertBody> {
 protected:
  AlbertWithPooler(const Config& config, const Scope& scope, const std::string& prefix = AlbertBody::kPrefix)
      : EncoderModel(config, scope, prefix),
        pooler_((prefix.empty() ? scope : scope / prefix) / "pooler", config_.hidden_size, config_.hidden_size,
                config_.new_weights()) {}
  Tensor pooled(const Tensor& hidden, ForwardContext& context) const {
    return tanh(pooler_(first_token(hidden), context));
  }  // [B, T, D] -> [B, D]

 private:
  Linear pooler_;
};

class AlbertModel : public AlbertWithPooler {
 public:
  AlbertModel(const Config& config, const Scope& scope) : AlbertWithPooler(config, scope, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}, {"pooler_output", pooled(hidden, context)}};
    });
  }
};

class AlbertForSequenceClassification : public AlbertWithPooler {
 public:
  AlbertForSequenceClassification(const Config& config, const Scope& scope)
      : AlbertWithPooler(config, scope),
        dropout_(config_.classifier_dropout),
        classifier_(scope / "classifier", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return sequence_classification_outputs(classifier_(dropout_(pooled(hidden, context), context), context), inputs,
                                             config_.problem_type, context);
    });
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

class AlbertForMultipleChoice : public AlbertWithPooler {
 public:
  AlbertForMultipleChoice(const Config& config, const Scope& scope)
      : AlbertWithPooler(config, scope),
        dropout_(config_.classifier_dropout),
        classifier_(scope / "classifier", config_.hidden_size, 1, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    return with_head(flattened_choices(inputs), context, [&](const Tensor& hidden) {
      return choice_outputs(classifier_(dropout_(pooled(hidden, context), context), context), choices, inputs, context);
    });
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

// Back to the embedding width, then over the vocabulary: [B, T, D] -> [B, T, V]. `scope` is that of the model.
class AlbertPredictions {
 public:
  AlbertPredictions(const Scope& scope, const AlbertConfig& c, const Embedding& words)
      : activation_(c.hidden_act),
        layer_norm_(scope / "predictions" / "LayerNorm", c.embedding_size, c.layer_norm_eps),
        dense_(scope / "predictions" / "dense", c.hidden_size, c.embedding_size, c.new_weights()),
        decoder_(scope / "predictions", c.tie_word_embeddings ? "bias" : "decoder.bias", "decoder.weight", words,
                 c.tie_word_embeddings, c.embedding_size, c.vocab_size, c.initializer_range) {}
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return decoder_(layer_norm_(activation(activation_, dense_(hidden, context)), context), context);
  }

 private:
  std::string activation_;
  LayerNorm layer_norm_;
  Linear dense_;
  TiedDecoder decoder_;
};

// Masked words, and the order of two sentences.
class AlbertForPreTraining : public AlbertWithPooler {
 public:
  AlbertForPreTraining(const Config& config, const Scope& scope)
      : AlbertWithPooler(config, scope),
        predictions_(scope, config_, body_.word_embeddings()),
        dropout_(config_.classifier_dropout),
        sop_classifier_(scope / "sop_classifier" / "classifier", config_.hidden_size, config_.num_labels,
                        config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = AlbertBody::input_names("labels");
    names.push_back("sentence_order_label");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      const Tensor words = predictions_(hidden, context),
                   order = sop_classifier_(dropout_(pooled(hidden, context), context), context);
      const Tensor labels = inputs.find("labels"), order_label = inputs.find("sentence_order_label");
      Tensor loss;
      if (labels.defined() && order_label.defined())
        loss = mean_cross_entropy(words, labels, context) + mean_cross_entropy(order, order_label, context);
      return with_loss(loss, {{"prediction_logits", words}, {"sop_logits", order}});
    });
  }

 private:
  AlbertPredictions predictions_;
  Dropout dropout_;
  Linear sop_classifier_;
};

}  // namespace

static Family albert_family() {
  return {.model_type = "albert",
          .base_prefix = "albert",
          .architectures = {{"AlbertModel",
                             body_head({"feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                             make_model<AlbertModel>},
                            {"AlbertForSequenceClassification",
                             sequence_classification_head({"albert.pooler", "classifier"}),
                             make_model<AlbertForSequenceClassification>},
                            {"AlbertForTokenClassification", token_classification_head({"classifier"}),
                             make_model<EncoderForTokenClassification<AlbertBody>>},
                            {"AlbertForQuestionAnswering", question_answering_head({"qa_outputs"}),
                             make_model<EncoderForQuestionAnswering<AlbertBody>>},
                            {"AlbertForMaskedLM", masked_lm_head({"predictions"}, {"predictions.decoder"}),
                             make_model<EncoderForMaskedLM<AlbertBody, AlbertPredictions>>},
                            {"AlbertForPreTraining",
                             {.task = HeadTask::kPreTraining,
                              .pipelines = {"pretraining"},
                              .labels = HeadLabels::kTokens,
                              .modules = {"albert.pooler", "predictions", "sop_classifier"},
                              .vocabulary = {"predictions.decoder"},
                              .outputs = {"prediction_logits", "sop_logits"},
                              .second_label = "sentence_order_label"},
                             make_model<AlbertForPreTraining>},
                            {"AlbertForMultipleChoice", multiple_choice_head({"albert.pooler", "classifier"}),
                             make_model<AlbertForMultipleChoice>}},
          .inputs = typed_text_inputs(2),
          .processors = {.tokenizer = "Albert",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none,
                      .keras = KerasNames{.body = "albert", .doubled = "predictions.bias"},
                      .flax = FlaxNames{},
                      .google = GoogleFiles{"albert_config.json", HeadTask::kMaskedLM}},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kAlbertFamily{albert_family};

}  // namespace transom
