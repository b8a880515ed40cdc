// SPDX-License-Identifier: Apache-2.0
// DeBERTa, versions 1 to 3 (He et al., 2021): a BERT whose attention sees content and relative position apart. B batch,
// T time, D hidden, R relative positions.
#include <limits>

#include "base/error.h"
#include "models/families/deberta_v2/deberta_attention.h"
#include "models/family.h"
#include "models/nn/vision/convolution.h"

namespace transom {
namespace {

class DebertaV2Layer {
 public:
  DebertaV2Layer(const Scope& scope, const DebertaV2Config& c)
      : activation_(c.hidden_act),
        self_(scope / "attention" / "self", c),
        attention_output_(scope / "attention" / "output" / "dense", c.all_heads(), c.hidden_size, c.new_weights()),
        attention_norm_(scope / "attention" / "output" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        intermediate_(scope / "intermediate" / "dense", c.hidden_size, c.intermediate_size, c.new_weights()),
        output_(scope / "output" / "dense", c.intermediate_size, c.hidden_size, c.new_weights()),
        output_norm_(scope / "output" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        dropout_(c.hidden_dropout_prob) {}

  Tensor operator()(const Tensor& x, const Tensor& mask, const DistanceTables& positions,
                    ForwardContext& context) const {
    const Tensor attended = attention_output_(self_(x, mask, positions, context), context);
    const Tensor h = attention_norm_(dropout_(attended, context) + x, context);
    return output_norm_(dropout_(output_(activation(activation_, intermediate_(h, context)), context), context) + h,
                        context);
  }

 private:
  std::string activation_;
  DisentangledAttention self_;
  Linear attention_output_;
  LayerNorm attention_norm_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  Dropout dropout_;
};

// A convolution over time beside the first layer.
class ConvolutionLayer {
 public:
  ConvolutionLayer(const Scope& scope, const DebertaV2Config& c)
      : activation_(c.conv_act),
        conv_(scope / "conv", c.hidden_size, c.hidden_size, {c.conv_kernel_size},
              {.low = {(c.conv_kernel_size - 1) / 2},
               .high = {(c.conv_kernel_size - 1) / 2},
               .groups = c.conv_groups,
               .deviation = c.initializer_range}),
        layer_norm_(scope / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        dropout_(c.hidden_dropout_prob) {
    if (c.conv_kernel_size % 2 == 0)
      fail("config.json: conv_kernel_size: expected an odd number, found {}", c.conv_kernel_size);
  }
  // What went into the first layer, what came out, and 1 for tokens that count, [B, T, 1], or empty.
  Tensor operator()(const Tensor& in, const Tensor& out, const Tensor& counted, ForwardContext& context) const {
    Tensor x = permute(conv_(permute(in, {0, 2, 1}), context), {0, 2, 1});
    if (counted.defined()) x = x * counted;
    const Tensor y = layer_norm_(out + activation(activation_, dropout_(x, context)), context);
    return counted.defined() ? y * counted : y;
  }

 private:
  std::string activation_;
  Convolution conv_;
  LayerNorm layer_norm_;
  Dropout dropout_;
};

class DebertaV2Body {
 public:
  using Settings = DebertaV2Config;
  static constexpr const char* kPrefix = "deberta";
  static constexpr bool kTextsInRows = false;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds", target};
  }

  DebertaV2Body(const Scope& scope, const DebertaV2Config& c)
      : c_(c),
        word_embeddings_(scope / "embeddings" / "word_embeddings", c.vocab_size, c.embedding_size, c.initializer_range,
                         c.pad_token_id.value_or(-1)),
        layer_norm_(scope / "embeddings" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        dropout_(c.hidden_dropout_prob) {
    if (c.position_biased_input)
      position_embeddings_.emplace(scope / "embeddings" / "position_embeddings", c.max_position_embeddings,
                                   c.embedding_size, c.initializer_range);
    if (c.type_vocab_size > 0)
      token_type_embeddings_.emplace(scope / "embeddings" / "token_type_embeddings", c.type_vocab_size,
                                     c.embedding_size, c.initializer_range);
    if (c.embedding_size != c.hidden_size)
      embed_proj_.emplace(scope / "embeddings" / "embed_proj", c.embedding_size, c.hidden_size,
                          Linear::Options{.bias = false, .deviation = c.initializer_range});
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layer_.emplace_back(scope / "encoder" / "layer" / i, c);
    if (c.relative_attention)
      rel_embeddings_ = (scope / "encoder" / "rel_embeddings")
                            .parameter("weight", {2 * c.span(), c.hidden_size}, Initial::normal(c.initializer_range));
    if (c.norm_rel_ebd) rel_norm_.emplace(scope / "encoder" / "LayerNorm", c.hidden_size, c.layer_norm_eps);
    if (c.conv_kernel_size > 0) conv_.emplace(scope / "encoder" / "conv", c);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const Tensor attention_mask = inputs.find("attention_mask");
    if (attention_mask.defined() && attention_mask.rank() != 2)
      fail("attention_mask: expected [batch, length], found {}", to_string(attention_mask.shape()));
    // Without position embeddings there is no longest text.
    const EncoderInputs in =
        encoder_inputs(inputs, position_embeddings_ ? c_.max_position_embeddings : std::numeric_limits<int64_t>::max());
    Tensor x = in.inputs_embeds.defined() ? in.inputs_embeds : word_embeddings_(in.input_ids, context);
    if (position_embeddings_) x = x + (*position_embeddings_)(in.position_ids, context);
    if (token_type_embeddings_)
      x = x + (*token_type_embeddings_)(
                  in.token_type_ids.defined() ? in.token_type_ids : zeros({1, in.length}, DType::kInt64), context);
    if (embed_proj_) x = (*embed_proj_)(x, context);
    x = layer_norm_(x, context);
    // Padding neither sees nor is seen, as in Transformers: what stands there enters the loss of answers.
    Tensor counted, mask;  // [B, T, 1]; bool [B, 1, T, T]
    if (attention_mask.defined()) {
      counted = unsqueeze(cast(attention_mask, x.dtype()), 2);
      mask = unsqueeze(cast(counted * permute(counted, {0, 2, 1}), DType::kBool), 1);
    }
    if (counted.defined()) x = x * counted;
    x = dropout_(x, context);

    DistanceTables positions;
    if (rel_embeddings_) {
      const Tensor& table = rel_embeddings_->value;
      positions = {unsqueeze(rel_norm_ ? (*rel_norm_)(table, context) : table, 0), relative_positions(in.length, c_)};
    }
    EncoderOutput output;
    if (context.output_hidden_states) output.hidden_states.push_back(x);
    for (size_t i = 0; i < layer_.size(); ++i) {
      const auto through = [&](const std::vector<Tensor>& y) {
        const Tensor out = layer_[i](y[0], mask, positions, context);
        return i == 0 && conv_ ? (*conv_)(y[0], out, counted, context) : out;
      };
      x = context.gradient_checkpointing && context.training ? checkpoint(through, {x}) : through({x});
      if (context.output_hidden_states) output.hidden_states.push_back(x);
    }
    output.last_hidden_state = x;
    return output;
  }
  const Embedding& word_embeddings() const { return word_embeddings_; }

 private:
  DebertaV2Config c_;
  Embedding word_embeddings_;
  std::optional<Embedding> position_embeddings_, token_type_embeddings_;
  std::optional<Linear> embed_proj_;
  LayerNorm layer_norm_;
  Dropout dropout_;
  std::vector<DebertaV2Layer> layer_;
  std::shared_ptr<Parameter> rel_embeddings_;
  std::optional<LayerNorm> rel_norm_;
  std::optional<ConvolutionLayer> conv_;
};

struct DebertaBody : DebertaV2Body {
  using Settings = DebertaConfig;
  DebertaBody(const Scope& scope, const DebertaConfig& config) : DebertaV2Body(scope, config) {}
};

// The first token, through a dense layer: [B, T, D] -> [B, D].
class ContextPooler {
 public:
  ContextPooler(const Scope& scope, const DebertaV2Config& c)
      : activation_(c.pooler_hidden_act),
        dense_(scope / "dense", c.pooler_hidden_size, c.pooler_hidden_size, c.new_weights()),
        dropout_(c.pooler_dropout) {
    if (c.pooler_hidden_size != c.hidden_size)
      fail("config.json: pooler_hidden_size {} must be hidden_size {}", c.pooler_hidden_size, c.hidden_size);
  }
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return activation(activation_, dense_(dropout_(first_token(hidden), context), context));
  }

 private:
  std::string activation_;
  Linear dense_;
  Dropout dropout_;
};

template <typename Body>
class AnyDebertaModel : public EncoderModel<Body> {
 public:
  AnyDebertaModel(const Config& config, const Scope& scope) : EncoderModel<Body>(config, scope, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return this->with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}};
    });
  }
};

template <typename Body>
class AnyDebertaForSequenceClassification : public EncoderModel<Body> {
 public:
  AnyDebertaForSequenceClassification(const Config& config, const Scope& scope)
      : EncoderModel<Body>(config, scope),
        pooler_(scope / "pooler", this->config_),
        dropout_(this->config_.cls_dropout),
        classifier_(scope / "classifier", this->config_.hidden_size, this->config_.num_labels,
                    this->config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return this->with_head(inputs, context, [&](const Tensor& hidden) {
      const Tensor logits = classifier_(dropout_(pooler_(hidden, context), context), context),
                   labels = inputs.find("labels");
      return with_loss(labels.defined() ? loss(logits, labels, context) : Tensor(), {{"logits", logits}});
    });
  }

 private:
  // Without a problem type: negative labels do not count, and labels for each class are a distribution.
  Tensor loss(const Tensor& logits, const Tensor& labels, const ForwardContext& context) const {
    const bool one_a_row = labels.rank() == 1 || labels.dim(-1) == 1;
    if (!this->config_.problem_type.empty() || this->config_.num_labels == 1)
      return classification_loss(logits, labels, this->config_.problem_type, context);
    if (one_a_row) {
      const Tensor ids = cast(labels, DType::kInt64), none = full(ids.shape(), -100, DType::kInt64);
      return mean_cross_entropy(logits, select(less(ids, full(ids.shape(), 0, DType::kInt64)), none, ids), context);
    }
    const Tensor target = cast(labels, DType::kFloat32);
    return -mean_of_all(reduce_sum(log_softmax(cast(logits, DType::kFloat32), context.computing) * target, {1}),
                        context);
  }

  ContextPooler pooler_;
  Dropout dropout_;
  Linear classifier_;
};

template <typename Body>
class AnyDebertaForMultipleChoice : public EncoderModel<Body> {
 public:
  AnyDebertaForMultipleChoice(const Config& config, const Scope& scope)
      : EncoderModel<Body>(config, scope),
        pooler_(scope / "pooler", this->config_),
        dropout_(this->config_.cls_dropout),
        classifier_(scope / "classifier", this->config_.hidden_size, 1, this->config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    return this->with_head(flattened_choices(inputs), context, [&](const Tensor& hidden) {
      return choice_outputs(classifier_(dropout_(pooler_(hidden, context), context), context), choices, inputs,
                            context);
    });
  }

 private:
  ContextPooler pooler_;
  Dropout dropout_;
  Linear classifier_;
};

// Of two layouts: the older has BERT's names.
template <typename Body>
class AnyDebertaForMaskedLM : public EncoderModel<Body> {
 public:
  AnyDebertaForMaskedLM(const Config& config, const Scope& scope)
      : EncoderModel<Body>(config, scope),
        dense_((this->config_.legacy ? scope / "cls" / "predictions" / "transform"
                                     : scope / "lm_predictions" / "lm_head") /
                   "dense",
               this->config_.hidden_size, this->config_.embedding_size, this->config_.new_weights()),
        layer_norm_((this->config_.legacy ? scope / "cls" / "predictions" / "transform"
                                          : scope / "lm_predictions" / "lm_head") /
                        "LayerNorm",
                    this->config_.embedding_size, this->config_.layer_norm_eps),
        decoder_(this->config_.legacy ? scope / "cls" / "predictions" : scope / "lm_predictions" / "lm_head",
                 this->config_.tie_word_embeddings || !this->config_.legacy ? "bias" : "decoder.bias", "decoder.weight",
                 this->body_.word_embeddings(), this->config_.tie_word_embeddings || !this->config_.legacy,
                 this->config_.embedding_size, this->config_.vocab_size, this->config_.initializer_range) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return this->with_head(inputs, context, [&](const Tensor& hidden) {
      return token_outputs(
          decoder_(layer_norm_(activation(this->config_.hidden_act, dense_(hidden, context)), context), context),
          inputs, context);
    });
  }

 private:
  Linear dense_;
  LayerNorm layer_norm_;
  TiedDecoder decoder_;
};

}  // namespace

static Family deberta_v2_family() {
  return {
      .model_type = "deberta-v2",
      .base_prefix = "deberta",
      .architectures = {{"DebertaV2Model", body_head({"feature-extraction"}),
                         make_model<AnyDebertaModel<DebertaV2Body>>},
                        {"DebertaV2ForSequenceClassification", sequence_classification_head({"pooler", "classifier"}),
                         make_model<AnyDebertaForSequenceClassification<DebertaV2Body>>},
                        {"DebertaV2ForTokenClassification", token_classification_head({"classifier"}),
                         make_model<EncoderForTokenClassification<DebertaV2Body>>},
                        {"DebertaV2ForQuestionAnswering", question_answering_head({"qa_outputs"}),
                         make_model<EncoderForQuestionAnswering<DebertaV2Body>>},
                        {"DebertaV2ForMaskedLM",
                         masked_lm_head({"cls", "lm_predictions"},
                                        {"cls.predictions.decoder", "lm_predictions.lm_head.decoder"}),
                         make_model<AnyDebertaForMaskedLM<DebertaV2Body>>},
                        {"DebertaV2ForMultipleChoice", multiple_choice_head({"pooler", "classifier"}),
                         make_model<AnyDebertaForMultipleChoice<DebertaV2Body>>}},
      .inputs = typed_text_inputs(0),
      .processors = {.tokenizer = "DebertaV2",
                     .image_processor = none,
                     .positions =
                         PositionLimit{.fields = {"max_position_embeddings"}, .table_flag = "position_biased_input"},
                     .spaced_words = false,
                     .spans = false},
      .weights = {.lora_targets = {"query_proj", "value_proj"},
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none,
                  .adapter_targets = {.ia3 = {"key_proj", "value_proj", "output.dense"},
                                      .ia3_feedforward = {"output.dense"},
                                      .norms = {},
                                      .adalora = {"query_proj", "key_proj", "value_proj", "dense"}}},
      .foreign = {.gguf = none, .keras = KerasNames{.body = "deberta"}, .flax = none},
      .planning = {.fused_attention = false}};
}

static Family deberta_family() {
  return {
      .model_type = "deberta",
      .base_prefix = "deberta",
      .architectures = {{"DebertaModel", body_head({"feature-extraction"}), make_model<AnyDebertaModel<DebertaBody>>},
                        {"DebertaForSequenceClassification", sequence_classification_head({"pooler", "classifier"}),
                         make_model<AnyDebertaForSequenceClassification<DebertaBody>>},
                        {"DebertaForTokenClassification", token_classification_head({"classifier"}),
                         make_model<EncoderForTokenClassification<DebertaBody>>},
                        {"DebertaForQuestionAnswering", question_answering_head({"qa_outputs"}),
                         make_model<EncoderForQuestionAnswering<DebertaBody>>},
                        {"DebertaForMaskedLM",
                         masked_lm_head({"cls", "lm_predictions"},
                                        {"cls.predictions.decoder", "lm_predictions.lm_head.decoder"}),
                         make_model<AnyDebertaForMaskedLM<DebertaBody>>}},
      .inputs = typed_text_inputs(0),
      .processors = {.tokenizer = "Deberta",
                     .image_processor = none,
                     .positions =
                         PositionLimit{.fields = {"max_position_embeddings"}, .table_flag = "position_biased_input"},
                     .spaced_words = true,
                     .spans = false},
      .weights = {.lora_targets = {"in_proj"},
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none,
                  .adapter_targets = {.ia3 = {"in_proj", "output.dense"},
                                      .ia3_feedforward = {"output.dense"},
                                      .norms = {}}},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kDebertaFamilies{deberta_v2_family, deberta_family};

}  // namespace transom
