// SPDX-License-Identifier: Apache-2.0
// DistilBERT (Sanh et al., 2019): BERT without token types and pooler, with half the layers. B batch, T time, D hidden.
#include "base/error.h"
#include "models/families/bert/bert_encoder.h"
#include "models/family.h"
#include "models/shared/encoder_heads.h"
#include "models/shared/tokens_of_batch.h"

namespace transom {
namespace {

struct DistilBertConfig {
  explicit DistilBertConfig(const Config& config)
      : vocab_size(config.get_int("vocab_size", 30522)),
        dim(config.get_int("dim", 768)),
        n_layers(config.get_int("n_layers", 6)),
        n_heads(config.get_int("n_heads", 12)),
        hidden_dim(config.get_int("hidden_dim", 3072)),
        max_position_embeddings(config.get_int("max_position_embeddings", 512)),
        pad_token_id(padding_id(config, 0).value_or(-1)),
        dropout(config.get_float("dropout", 0.1)),
        attention_dropout(config.get_float("attention_dropout", 0.1)),
        qa_dropout(config.get_float("qa_dropout", 0.1)),
        seq_classif_dropout(config.get_float("seq_classif_dropout", 0.2)),
        initializer_range(config.get_float("initializer_range", 0.02)),
        activation(config.get_string("activation", "gelu")),
        problem_type(config.get_string("problem_type", "")),
        tie_word_embeddings(config.get_bool("tie_word_embeddings", true)),
        num_labels(number_of_labels(config)) {
    if (n_heads <= 0 || dim % n_heads != 0) fail("config.json: dim {} is not divisible by n_heads {}", dim, n_heads);
  }
  Linear::Options new_weights() const { return {.deviation = initializer_range}; }

  int64_t vocab_size, dim, n_layers, n_heads, hidden_dim, max_position_embeddings, pad_token_id;
  double dropout, attention_dropout, qa_dropout, seq_classif_dropout, initializer_range;
  std::string activation, problem_type;
  bool tie_word_embeddings;
  int64_t num_labels;
};

constexpr double kNormEpsilon = 1e-12;

class TransformerBlock {
 public:
  TransformerBlock(const Scope& scope, const DistilBertConfig& c)
      : path_(scope.path()),
        heads_(c.n_heads),
        activation_(c.activation),
        q_lin_(scope / "attention" / "q_lin", c.dim, c.dim, c.new_weights()),
        k_lin_(scope / "attention" / "k_lin", c.dim, c.dim, c.new_weights()),
        v_lin_(scope / "attention" / "v_lin", c.dim, c.dim, c.new_weights()),
        out_lin_(scope / "attention" / "out_lin", c.dim, c.dim, c.new_weights()),
        sa_layer_norm_(scope / "sa_layer_norm", c.dim, kNormEpsilon),
        lin1_(scope / "ffn" / "lin1", c.dim, c.hidden_dim, c.new_weights()),
        lin2_(scope / "ffn" / "lin2", c.hidden_dim, c.dim, c.new_weights()),
        output_layer_norm_(scope / "output_layer_norm", c.dim, kNormEpsilon),
        attention_dropout_(c.attention_dropout),
        dropout_(c.dropout) {}

  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {  // [B, T, D] -> [B, T, D]
    Tensor attended;
    {
      const ModuleScope module(path_ + ".attention");
      attended = multi_head_attention(q_lin_(x, context), k_lin_(x, context), v_lin_(x, context), heads_, mask,
                                      attention_dropout_, context);
    }
    const Tensor h = sa_layer_norm_(out_lin_(attended, context) + x, context);
    const Tensor y = dropout_(lin2_(transom::activation(activation_, lin1_(h, context)), context), context);
    return output_layer_norm_(y + h, context);
  }

 private:
  std::string path_;
  int64_t heads_;
  std::string activation_;
  Linear q_lin_, k_lin_, v_lin_, out_lin_;
  LayerNorm sa_layer_norm_;
  Linear lin1_, lin2_;
  LayerNorm output_layer_norm_;
  Dropout attention_dropout_, dropout_;
};

class DistilBertBody {
 public:
  DistilBertBody(const Scope& scope, const DistilBertConfig& c)
      : config_(c),
        word_embeddings(scope / "embeddings" / "word_embeddings", c.vocab_size, c.dim, c.initializer_range,
                        c.pad_token_id),
        position_embeddings_(scope / "embeddings" / "position_embeddings", c.max_position_embeddings, c.dim,
                             c.initializer_range),
        layer_norm_(scope / "embeddings" / "LayerNorm", c.dim, kNormEpsilon),
        dropout_(c.dropout) {
    for (int64_t i = 0; i < c.n_layers; ++i) layers_.emplace_back(scope / "transformer" / "layer" / i, c);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const EncoderInputs in = encoder_inputs(inputs, config_.max_position_embeddings, std::nullopt, context.texts);
    const Tensor words = in.input_ids.defined() ? word_embeddings(in.input_ids, context) : in.inputs_embeds;
    const Tensor x = dropout_(layer_norm_(words + position_embeddings_(in.position_ids, context), context), context);
    return through_layers(layers_, x, in.mask, context);
  }

 private:
  DistilBertConfig config_;

 public:
  Embedding word_embeddings;

 private:
  Embedding position_embeddings_;
  LayerNorm layer_norm_;
  Dropout dropout_;
  std::vector<TransformerBlock> layers_;
};

class DistilBertModelWithHead : public Model {
 public:
  bool takes_texts_in_rows() const override { return true; }

 protected:
  DistilBertModelWithHead(const Config& config, const Scope& scope, const std::string& body = "distilbert")
      : config_(config), distilbert_(body.empty() ? scope : scope / body, config_) {}
  std::vector<std::string> input_names() const override {
    return {"input_ids", "attention_mask", "position_ids", "inputs_embeds", "labels"};
  }
  template <typename Head>
  NamedTensors with_head(const NamedTensors& inputs, ForwardContext& context, Head&& head) const {
    const TokensOfBatch tokens(inputs);
    EncoderOutput result = distilbert_(tokens.inputs(), context);
    NamedTensors outputs = head(tokens.in_place(result.last_hidden_state));
    for (Tensor& state : result.hidden_states) state = tokens.in_place(state);
    add_hidden_states(outputs, result.hidden_states);
    return outputs;
  }

  DistilBertConfig config_;
  DistilBertBody distilbert_;
};

class DistilBertModel : public DistilBertModelWithHead {
 public:
  DistilBertModel(const Config& config, const Scope& scope) : DistilBertModelWithHead(config, scope, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}};
    });
  }
};

// A ReLU layer on the first token, then the classifier; one class of several, or a score for each choice.
class DistilBertForSequenceClassification : public DistilBertModelWithHead {
 public:
  DistilBertForSequenceClassification(const Config& config, const Scope& scope)
      : DistilBertForSequenceClassification(config, scope, DistilBertConfig(config).num_labels) {}

 protected:
  DistilBertForSequenceClassification(const Config& config, const Scope& scope, int64_t outputs)
      : DistilBertModelWithHead(config, scope),
        pre_classifier_(scope / "pre_classifier", config_.dim, config_.dim, config_.new_weights()),
        classifier_(scope / "classifier", config_.dim, outputs, config_.new_weights()),
        dropout_(config_.seq_classif_dropout) {}
  Tensor scores(const Tensor& hidden, ForwardContext& context) const {
    return classifier_(dropout_(relu(pre_classifier_(squeeze(slice(hidden, 1, 0, 1), 1), context)), context), context);
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return sequence_classification_outputs(scores(hidden, context), inputs, config_.problem_type, context);
    });
  }

 private:
  Linear pre_classifier_, classifier_;
  Dropout dropout_;
};

class DistilBertForMultipleChoice : public DistilBertForSequenceClassification {
 public:
  DistilBertForMultipleChoice(const Config& config, const Scope& scope)
      : DistilBertForSequenceClassification(config, scope, 1) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    return with_head(flattened_choices(inputs), context, [&](const Tensor& hidden) {
      return choice_outputs(scores(hidden, context), choices, inputs, context);
    });
  }
};

class DistilBertForTokenClassification : public DistilBertModelWithHead {
 public:
  DistilBertForTokenClassification(const Config& config, const Scope& scope)
      : DistilBertModelWithHead(config, scope),
        dropout_(config_.dropout),
        classifier_(scope / "classifier", config_.dim, config_.num_labels, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return token_outputs(classifier_(dropout_(hidden, context), context), inputs, context);
    });
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

class DistilBertForQuestionAnswering : public DistilBertModelWithHead {
 public:
  DistilBertForQuestionAnswering(const Config& config, const Scope& scope)
      : DistilBertModelWithHead(config, scope),
        qa_outputs_(scope / "qa_outputs", config_.dim, 2, config_.new_weights()),
        dropout_(config_.qa_dropout) {}

 protected:
  std::vector<std::string> input_names() const override {
    return {"input_ids", "attention_mask", "position_ids", "inputs_embeds", "start_positions", "end_positions"};
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return span_outputs(qa_outputs_(dropout_(hidden, context), context), inputs, context);
    });
  }

 private:
  Linear qa_outputs_;
  Dropout dropout_;
};

class DistilBertForMaskedLM : public DistilBertModelWithHead {
 public:
  DistilBertForMaskedLM(const Config& config, const Scope& scope)
      : DistilBertModelWithHead(config, scope),
        vocab_transform_(scope / "vocab_transform", config_.dim, config_.dim, config_.new_weights()),
        vocab_layer_norm_(scope / "vocab_layer_norm", config_.dim, kNormEpsilon),
        vocab_projector_(scope / "vocab_projector", "bias", "weight", distilbert_.word_embeddings,
                         config_.tie_word_embeddings, config_.dim, config_.vocab_size, config_.initializer_range) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return token_outputs(
          vocab_projector_(
              vocab_layer_norm_(activation(config_.activation, vocab_transform_(hidden, context)), context), context),
          inputs, context);
    });
  }

 private:
  Linear vocab_transform_;
  LayerNorm vocab_layer_norm_;
  TiedDecoder vocab_projector_;
};

}  // namespace

static Family distilbert_family() {
  return {.model_type = "distilbert",
          .base_prefix = "distilbert",
          .architectures = {{"DistilBertModel", body_head({"feature-extraction"}), make_model<DistilBertModel>},
                            {"DistilBertForSequenceClassification",
                             sequence_classification_head({"pre_classifier", "classifier"}),
                             make_model<DistilBertForSequenceClassification>},
                            {"DistilBertForTokenClassification", token_classification_head({"classifier"}),
                             make_model<DistilBertForTokenClassification>},
                            {"DistilBertForQuestionAnswering", question_answering_head({"qa_outputs"}),
                             make_model<DistilBertForQuestionAnswering>},
                            {"DistilBertForMaskedLM",
                             masked_lm_head({"vocab_transform", "vocab_layer_norm", "vocab_projector"},
                                            {"vocab_projector"}),
                             make_model<DistilBertForMaskedLM>},
                            {"DistilBertForMultipleChoice", multiple_choice_head({"pre_classifier", "classifier"}),
                             make_model<DistilBertForMultipleChoice>}},
          .inputs = placed_text_inputs(),
          .processors = {.tokenizer = "DistilBert",
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
          .foreign = {.gguf = none, .keras = KerasNames{.body = "distilbert"}, .flax = FlaxNames{}},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kDistilbertFamily{distilbert_family};

}  // namespace transom
