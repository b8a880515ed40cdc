// SPDX-License-Identifier: Apache-2.0
// ELECTRA (Clark et al., 2020): BERT's encoder over embeddings of a width of their own, and heads of its own.
// B batch, T time, D hidden, E embedding width.
#include <optional>
#include <set>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/losses/losses.h"
#include "models/shared/encoder_causal_lm.h"
#include "models/shared/encoder_model.h"

namespace transom {
namespace {

struct ElectraConfig : BertConfig {
  explicit ElectraConfig(const Config& config)
      : BertConfig(
            with_defaults(config, R"({"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024})")),
        embedding_size(config.get_int("embedding_size", 128)),
        summary_type(config.get_string("summary_type", "first")),
        summary_activation(config.get_string("summary_activation", "gelu")),
        summary_use_proj(config.get_bool("summary_use_proj", true)),
        summary_last_dropout(config.get_float("summary_last_dropout", 0.1)) {}
  int64_t embedding_size;
  std::string summary_type, summary_activation;  // of multiple choice
  bool summary_use_proj;
  double summary_last_dropout;
};

class ElectraBody {
 public:
  using Settings = ElectraConfig;
  static constexpr const char* kPrefix = "electra";
  static constexpr bool kTextsInRows = true;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds", target};
  }

  ElectraBody(const Scope& scope, const ElectraConfig& c)
      : config_(c), embeddings_(scope / "embeddings", c.with_width(c.embedding_size)) {
    if (c.embedding_size != c.hidden_size)
      embeddings_project_.emplace(scope / "embeddings_project", c.embedding_size, c.hidden_size, c.new_weights());
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layer_.emplace_back(scope / "encoder" / "layer" / i, c, i);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const EncoderInputs in = bert_inputs(inputs, config_, false, context);
    Tensor x = embeddings_(in.input_ids, in.inputs_embeds, in.token_type_ids, in.position_ids, context);  // [B, T, E]
    if (embeddings_project_) x = (*embeddings_project_)(x, context);                                      // [B, T, D]
    return through_layers(layer_, x, in.mask, context);
  }
  const Embedding& word_embeddings() const { return embeddings_.word_embeddings; }

 private:
  BertConfig config_;
  BertEmbeddings embeddings_;
  std::optional<Linear> embeddings_project_;
  std::vector<BertLayer> layer_;
};

using ElectraWithHead = EncoderModel<ElectraBody>;

class ElectraModel : public ElectraWithHead {
 public:
  ElectraModel(const Config& config, const Scope& scope) : ElectraWithHead(config, scope, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}};
    });
  }
};

class ElectraForSequenceClassification : public ElectraWithHead {
 public:
  ElectraForSequenceClassification(const Config& config, const Scope& scope)
      : ElectraWithHead(config, scope),
        dropout_(config_.classifier_dropout),
        dense_(scope / "classifier" / "dense", config_.hidden_size, config_.hidden_size, config_.new_weights()),
        out_proj_(scope / "classifier" / "out_proj", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      const Tensor x = gelu(dense_(dropout_(first_token(hidden), context), context));
      return sequence_classification_outputs(out_proj_(dropout_(x, context), context), inputs, config_.problem_type,
                                             context);
    });
  }

 private:
  Dropout dropout_;
  Linear dense_, out_proj_;
};

// The discriminator: was this token replaced?
class ElectraForPreTraining : public ElectraWithHead {
 public:
  ElectraForPreTraining(const Config& config, const Scope& scope)
      : ElectraWithHead(config, scope),
        dense_(scope / "discriminator_predictions" / "dense", config_.hidden_size, config_.hidden_size,
               config_.new_weights()),
        dense_prediction_(scope / "discriminator_predictions" / "dense_prediction", config_.hidden_size, 1,
                          config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      const Tensor logits =
          squeeze(dense_prediction_(activation(config_.hidden_act, dense_(hidden, context)), context), -1);  // [B, T]
      const Tensor labels = inputs.find("labels");
      return with_loss(
          labels.defined() ? binary_cross_entropy(logits, labels, inputs.find("attention_mask"), context) : Tensor(),
          {{"logits", logits}});
    });
  }

 private:
  Linear dense_, dense_prediction_;
};

// What the generator predicts at each place.
class ElectraGenerator {
 public:
  ElectraGenerator(const Scope& scope, const ElectraConfig& c, const Embedding& words)
      : layer_norm_(scope / "generator_predictions" / "LayerNorm", c.embedding_size, c.layer_norm_eps),
        dense_(scope / "generator_predictions" / "dense", c.hidden_size, c.embedding_size, c.new_weights()),
        generator_lm_head_(scope / "generator_lm_head", "bias", "weight", words, c.tie_word_embeddings,
                           c.embedding_size, c.vocab_size, c.initializer_range) {}
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return generator_lm_head_(layer_norm_(gelu(dense_(hidden, context)), context), context);
  }

 private:
  LayerNorm layer_norm_;
  Linear dense_;
  TiedDecoder generator_lm_head_;
};

class ElectraForMultipleChoice : public ElectraWithHead {
 public:
  ElectraForMultipleChoice(const Config& config, const Scope& scope)
      : ElectraWithHead(config, scope),
        last_dropout_(config_.summary_last_dropout),
        classifier_(scope / "classifier", config_.hidden_size, 1, config_.new_weights()) {
    const std::set<std::string> known = {"first", "last", "mean", "cls_index"};
    if (!known.contains(config_.summary_type))
      fail("config.json: summary_type = {} is not carried out; first, last, mean and cls_index are",
           quoted(config_.summary_type));
    if (config_.summary_use_proj)
      summary_.emplace(scope / "sequence_summary" / "summary", config_.hidden_size, config_.hidden_size,
                       config_.new_weights());
  }

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    return with_head(flattened_choices(inputs), context, [&](const Tensor& hidden) {
      Tensor x = first_token(hidden);
      if (config_.summary_type == "mean") x = mean(hidden, {1});
      else if (config_.summary_type != "first")  // cls_index without an index is the last one
        x = squeeze(slice(hidden, 1, hidden.dim(1) - 1, hidden.dim(1)), 1);
      if (summary_) x = (*summary_)(x, context);
      if (!config_.summary_activation.empty()) x = activation(config_.summary_activation, x);
      return choice_outputs(classifier_(last_dropout_(x, context), context), choices, inputs, context);
    });
  }

 private:
  std::optional<Linear> summary_;
  Dropout last_dropout_;
  Linear classifier_;
};

}  // namespace

static Family electra_family() {
  return {.model_type = "electra",
          .base_prefix = "electra",
          .architectures = {{"ElectraModel", body_head({"feature-extraction"}), make_model<ElectraModel>},
                            {"ElectraForSequenceClassification", sequence_classification_head({"classifier"}),
                             make_model<ElectraForSequenceClassification>},
                            {"ElectraForTokenClassification", token_classification_head({"classifier"}),
                             make_model<EncoderForTokenClassification<ElectraBody>>},
                            {"ElectraForQuestionAnswering", question_answering_head({"qa_outputs"}),
                             make_model<EncoderForQuestionAnswering<ElectraBody>>},
                            {"ElectraForMaskedLM",
                             masked_lm_head({"generator_predictions", "generator_lm_head"}, {"generator_lm_head"}),
                             make_model<EncoderForMaskedLM<ElectraBody, ElectraGenerator>>},
                            {"ElectraForCausalLM",
                             causal_lm_head({"generator_predictions", "generator_lm_head"}, {"generator_lm_head"}),
                             make_model<EncoderForCausalLM<ElectraBody, ElectraGenerator>>},
                            {"ElectraForPreTraining",
                             {.task = HeadTask::kReplacedTokens,
                              .pipelines = {"pretraining"},
                              .labels = HeadLabels::kReplaced,
                              .modules = {"discriminator_predictions"},
                              .vocabulary = none,
                              .outputs = {"logits"}},
                             make_model<ElectraForPreTraining>},
                            {"ElectraForMultipleChoice", multiple_choice_head({"sequence_summary", "classifier"}),
                             make_model<ElectraForMultipleChoice>}},
          .inputs = typed_text_inputs(2),
          .processors = {.tokenizer = "Electra",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = {"query", "value"},
                      .late_parts = {LatePart{"", "classifier"}},
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none,
                      .keras = KerasNames{.body = "electra", .without = {"ElectraForCausalLM"}},
                      .flax = FlaxNames{}},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kElectraFamily{electra_family};

}  // namespace transom
