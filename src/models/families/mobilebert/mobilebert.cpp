// SPDX-License-Identifier: Apache-2.0
// MobileBERT (Sun et al., 2020): a thin BERT of many layers, each of which works in a bottleneck, with scales and
// biases in place of norms. B batch, T time, D hidden, E width of the table of words, N width within a layer, V
// vocabulary.
#include "base/error.h"
#include "models/families/bert/bert_predictions.h"
#include "models/family.h"
#include "models/nn/weight.h"
#include "models/shared/decoder.h"
#include "models/shared/encoder_model.h"

namespace transom {
namespace {

constexpr double kUsualEpsilon = 1e-5;  // of norms that no field speaks of

struct MobileBertConfig : BertConfig {
  explicit MobileBertConfig(const Config& config)
      : BertConfig(with_defaults(config, R"({"hidden_size": 512, "num_hidden_layers": 24, "num_attention_heads": 4,
                                             "intermediate_size": 512, "hidden_act": "relu",
                                             "hidden_dropout_prob": 0})")),
        embedding_size(config.get_int("embedding_size", 128)),
        intra_bottleneck_size(config.get_int("intra_bottleneck_size", 128)),
        num_feedforward_networks(config.get_int("num_feedforward_networks", 4)),
        trigram_input(config.get_bool("trigram_input", true)),
        use_bottleneck(config.get_bool("use_bottleneck", true)),
        use_bottleneck_attention(config.get_bool("use_bottleneck_attention", false)),
        key_query_shared_bottleneck(config.get_bool("key_query_shared_bottleneck", true)),
        pooler_activation(config.get_bool("classifier_activation", true)) {
    refuse_unless(config, "is_decoder", "false");
    const std::string norm = config.get_string("normalization_type", "no_norm");
    if (norm != "no_norm" && norm != "layer_norm")
      fail(ErrorKind::kUnsupported,
           "config.json: normalization_type: {} is not carried out; no_norm and layer_norm are", quoted(norm));
    layer_norm = norm == "layer_norm";
    if (width() % num_attention_heads != 0)
      fail("config.json: {} numbers within a layer are not divisible by num_attention_heads {}", width(),
           num_attention_heads);
    if (const int64_t stated = config.get_int("true_hidden_size", width()); stated != width())
      fail("config.json: true_hidden_size: expected {}, as use_bottleneck has it, found {}", width(), stated);
    if (embedding_size > hidden_size)
      fail("config.json: embedding_size: expected at most hidden_size {}, found {}", hidden_size, embedding_size);
    if (num_feedforward_networks < 1)
      fail("config.json: num_feedforward_networks: expected a number above 0, found {}", num_feedforward_networks);
  }
  int64_t embedding_size, intra_bottleneck_size, num_feedforward_networks;
  bool trigram_input, use_bottleneck, use_bottleneck_attention, key_query_shared_bottleneck, pooler_activation,
      layer_norm = false;
  int64_t width() const { return use_bottleneck ? intra_bottleneck_size : hidden_size; }  // within a layer
};

// A layer norm, or its scale and bias alone.
class MobileNorm {
 public:
  MobileNorm(const Scope& scope, int64_t width, const MobileBertConfig& c, double epsilon) {
    if (c.layer_norm) {
      norm_.emplace(scope, width, epsilon);
      return;
    }
    weight_ = scope.parameter("weight", {width}, Initial::ones());
    bias_ = scope.parameter("bias", {width}, Initial::zeros());
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return norm_ ? (*norm_)(x, context) : x * cast(weight_->value, x.dtype()) + cast(bias_->value, x.dtype());
  }

 private:
  std::optional<LayerNorm> norm_;
  std::shared_ptr<Parameter> weight_, bias_;
};

// A dense layer and a norm behind it, or behind its sum with what is given beside.
class MobileDense {
 public:
  MobileDense(const Scope& scope, int64_t from, int64_t to, const MobileBertConfig& c, double epsilon)
      : dense_(scope / "dense", from, to, c.new_weights()), norm_(scope / "LayerNorm", to, c, epsilon) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const { return norm_(dense_(x, context), context); }
  Tensor operator()(const Tensor& x, const Tensor& beside, const Dropout* dropout, ForwardContext& context) const {
    const Tensor y = dense_(x, context);
    return norm_((dropout ? (*dropout)(y, context) : y) + beside, context);
  }

 private:
  Linear dense_;
  MobileNorm norm_;
};

class MobileBertLayer {
 public:
  MobileBertLayer(const Scope& scope, const MobileBertConfig& c)
      : c_(c),
        path_(scope.path()),
        query_(scope / "attention" / "self" / "query", c.width(), c.width(), c.new_weights()),
        key_(scope / "attention" / "self" / "key", c.width(), c.width(), c.new_weights()),
        value_(scope / "attention" / "self" / "value", c.use_bottleneck_attention ? c.width() : c.hidden_size,
               c.width(), c.new_weights()),
        attention_output_(scope / "attention" / "output", c.width(), c.width(), c, c.layer_norm_eps),
        intermediate_(scope / "intermediate" / "dense", c.width(), c.intermediate_size, c.new_weights()),
        output_(scope / "output", c.intermediate_size, c.width(), c, kUsualEpsilon),
        attention_dropout_(c.attention_probs_dropout_prob),
        dropout_(c.hidden_dropout_prob) {
    if (c.use_bottleneck) {
      const Scope bottleneck = scope / "bottleneck";
      input_.emplace(bottleneck / "input", c.hidden_size, c.intra_bottleneck_size, c, c.layer_norm_eps);
      if (c.key_query_shared_bottleneck)
        attention_input_.emplace(bottleneck / "attention", c.hidden_size, c.intra_bottleneck_size, c, c.layer_norm_eps);
      bottleneck_output_.emplace(scope / "output" / "bottleneck", c.width(), c.hidden_size, c, c.layer_norm_eps);
    }
    for (int64_t i = 0; i + 1 < c.num_feedforward_networks; ++i) {
      ffn_in_.emplace_back(scope / "ffn" / i / "intermediate" / "dense", c.width(), c.intermediate_size,
                           c.new_weights());
      ffn_out_.emplace_back(scope / "ffn" / i / "output", c.intermediate_size, c.width(), c, c.layer_norm_eps);
    }
  }

  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
    const ModuleScope module(path_);
    const Tensor narrow = input_ ? (*input_)(x, context) : x;
    Tensor asked = x, valued = x;  // what queries and keys are of, and values
    if (c_.use_bottleneck && c_.use_bottleneck_attention) asked = valued = narrow;
    else if (attention_input_) asked = (*attention_input_)(x, context);
    const Tensor mixed = multi_head_attention(query_(asked, context), key_(asked, context), value_(valued, context),
                                              c_.num_attention_heads, mask, attention_dropout_, context);
    const Dropout* dropout = c_.use_bottleneck ? nullptr : &dropout_;
    Tensor h = attention_output_(mixed, narrow, dropout, context);
    for (size_t i = 0; i < ffn_in_.size(); ++i)
      h = ffn_out_[i](activation(c_.hidden_act, ffn_in_[i](h, context)), h, nullptr, context);
    const Tensor y = output_(activation(c_.hidden_act, intermediate_(h, context)), h, dropout, context);
    return bottleneck_output_ ? (*bottleneck_output_)(y, x, &dropout_, context) : y;
  }

 private:
  MobileBertConfig c_;
  std::string path_;
  std::optional<MobileDense> input_, attention_input_, bottleneck_output_;
  Linear query_, key_, value_;
  MobileDense attention_output_;
  std::vector<Linear> ffn_in_;
  std::vector<MobileDense> ffn_out_;
  Linear intermediate_;
  MobileDense output_;
  Dropout attention_dropout_, dropout_;
};

class MobileBertBody {
 public:
  using Settings = MobileBertConfig;
  static constexpr const char* kPrefix = "mobilebert";
  static constexpr bool kTextsInRows = false;  // a word is read with its neighbours
  static std::vector<std::string> input_names(const std::string& target) { return BertEncoder::input_names(target); }

  MobileBertBody(const Scope& scope, const MobileBertConfig& c)
      : c_(c),
        word_embeddings_(scope / "embeddings" / "word_embeddings", c.vocab_size, c.embedding_size, c.initializer_range,
                         c.pad_token_id.value_or(-1)),
        position_embeddings_(scope / "embeddings" / "position_embeddings", c.max_position_embeddings, c.hidden_size,
                             c.initializer_range),
        token_type_embeddings_(scope / "embeddings" / "token_type_embeddings", c.type_vocab_size, c.hidden_size,
                               c.initializer_range),
        transformation_(scope / "embeddings" / "embedding_transformation", (c.trigram_input ? 3 : 1) * c.embedding_size,
                        c.hidden_size, c.new_weights()),
        norm_(scope / "embeddings" / "LayerNorm", c.hidden_size, c, kUsualEpsilon),
        dropout_(c.hidden_dropout_prob) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const EncoderInputs in = encoder_inputs(inputs, c_.max_position_embeddings);
    Tensor x = in.inputs_embeds.defined() ? in.inputs_embeds : word_embeddings_(in.input_ids, context);
    if (c_.trigram_input) x = with_neighbours(x);
    if (c_.trigram_input || c_.embedding_size != c_.hidden_size) x = transformation_(x, context);
    const Tensor types = in.token_type_ids.defined() ? in.token_type_ids : zeros({1, in.length}, DType::kInt64);
    x = x + position_embeddings_(in.position_ids, context) + token_type_embeddings_(types, context);
    return through_layers(layers_, dropout_(norm_(x, context), context), in.mask, context);
  }
  const Embedding& word_embeddings() const { return word_embeddings_; }

 private:
  // The words behind, at and before each place, side by side: [B, T, E] -> [B, T, 3 E].
  static Tensor with_neighbours(const Tensor& x) {
    const int64_t T = x.dim(1);
    const Tensor none = full({x.dim(0), 1, x.dim(2)}, 0, x.dtype());
    const Tensor next = T > 1 ? concatenate({slice(x, 1, 1, T), none}, 1) : none;
    const Tensor last = T > 1 ? concatenate({none, slice(x, 1, 0, T - 1)}, 1) : none;
    return concatenate({next, x, last}, 2);
  }

  MobileBertConfig c_;
  Embedding word_embeddings_, position_embeddings_, token_type_embeddings_;
  Linear transformation_;
  MobileNorm norm_;
  Dropout dropout_;
  std::vector<MobileBertLayer> layers_;
};

using MobileBertWithHead = EncoderModel<MobileBertBody>;

// The first token, through a dense layer or as it is.
class MobileBertWithPooler : public MobileBertWithHead {
 protected:
  MobileBertWithPooler(const Config& config, const Scope& scope, const std::string& prefix = MobileBertBody::kPrefix)
      : MobileBertWithHead(config, scope, prefix) {
    if (config_.pooler_activation)
      dense_.emplace((prefix.empty() ? scope : scope / prefix) / "pooler" / "dense", config_.hidden_size,
                     config_.hidden_size, config_.new_weights());
  }
  Tensor pooled(const Tensor& hidden, ForwardContext& context) const {
    const Tensor first = first_token(hidden);
    return dense_ ? tanh((*dense_)(first, context)) : first;
  }

 private:
  std::optional<Linear> dense_;
};

class MobileBertModel : public MobileBertWithPooler {
 public:
  MobileBertModel(const Config& config, const Scope& scope) : MobileBertWithPooler(config, scope, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}, {"pooler_output", pooled(hidden, context)}};
    });
  }
};

// A transform, and a layer over the vocabulary, of which the first E columns are the table of words. `scope` is that of
// the model.
class MobileBertPredictions {
 public:
  MobileBertPredictions(const Scope& scope, const MobileBertConfig& c, const Embedding& words)
      : words_(c.embedding_size),
        transform_(scope, c),
        decoder_(scope / "cls" / "predictions", c.tie_word_embeddings ? "bias" : "decoder.bias", "decoder.weight",
                 words, c.tie_word_embeddings, c.embedding_size, c.vocab_size, c.initializer_range) {
    if (c.hidden_size == c.embedding_size) return;
    rest_ = (scope / "cls" / "predictions")
                .parameter("dense.weight", {c.hidden_size - c.embedding_size, c.vocab_size},
                           Initial::normal(c.initializer_range));
    rest_->use = Parameter::Use::kTransposedLinear;
  }
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    const Tensor x = transform_(hidden, context);
    const int64_t axis = x.rank() - 1, width = x.dim(axis);
    if (!rest_) return decoder_(x, context);
    const Tensor logits = decoder_(slice(x, axis, 0, words_), context);
    return logits + linear(slice(x, axis, words_, width), *rest_, {}, context);
  }

 private:
  int64_t words_;
  PredictionTransform transform_;
  TiedDecoder decoder_;
  std::shared_ptr<Parameter> rest_;
};

class MobileBertForPreTraining : public MobileBertWithPooler {
 public:
  MobileBertForPreTraining(const Config& config, const Scope& scope)
      : MobileBertWithPooler(config, scope),
        predictions_(scope, config_, body_.word_embeddings()),
        seq_relationship_(scope / "cls" / "seq_relationship", config_.hidden_size, 2, config_.new_weights()) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = MobileBertBody::input_names("labels");
    names.push_back("next_sentence_label");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return pre_training_outputs(predictions_, hidden, seq_relationship_(pooled(hidden, context), context), inputs,
                                  context);
    });
  }

 private:
  MobileBertPredictions predictions_;
  Linear seq_relationship_;
};

// A layer on the pooled token: classes of a text, the order of two, or the score of a choice.
class MobileBertOnPooled : public MobileBertWithPooler {
 protected:
  MobileBertOnPooled(const Config& config, const Scope& scope, const std::string& module, int64_t outputs, bool drops)
      : MobileBertWithPooler(config, scope),
        dropout_(drops ? config_.classifier_dropout : 0),
        classifier_(scope / module, config_.hidden_size, outputs, config_.new_weights()) {}
  Tensor classified(const Tensor& hidden, ForwardContext& context) const {
    return classifier_(dropout_(pooled(hidden, context), context), context);
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

class MobileBertForSequenceClassification : public MobileBertOnPooled {
 public:
  MobileBertForSequenceClassification(const Config& config, const Scope& scope)
      : MobileBertOnPooled(config, scope, "classifier", number_of_labels(config), true) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return sequence_classification_outputs(classified(hidden, context), inputs, config_.problem_type, context);
    });
  }
};

class MobileBertForNextSentencePrediction : public MobileBertOnPooled {
 public:
  MobileBertForNextSentencePrediction(const Config& config, const Scope& scope)
      : MobileBertOnPooled(config, scope, "cls.seq_relationship", 2, false) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context,
                     [&](const Tensor& hidden) { return token_outputs(classified(hidden, context), inputs, context); });
  }
};

class MobileBertForMultipleChoice : public MobileBertOnPooled {
 public:
  MobileBertForMultipleChoice(const Config& config, const Scope& scope)
      : MobileBertOnPooled(config, scope, "classifier", 1, true) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    return with_head(flattened_choices(inputs), context, [&](const Tensor& hidden) {
      return choice_outputs(classified(hidden, context), choices, inputs, context);
    });
  }
};

}  // namespace

static Family mobilebert_family() {
  const FamilyHead pretraining{.task = HeadTask::kPreTraining,
                               .pipelines = {"pretraining"},
                               .labels = HeadLabels::kTokens,
                               .modules = {"mobilebert.pooler", "cls"},
                               .vocabulary = {"cls.predictions.decoder"},
                               .outputs = {"prediction_logits", "seq_relationship_logits"},
                               .second_label = "next_sentence_label"};
  const FamilyHead order{.task = HeadTask::kNextSentence,
                         .pipelines = {"next-sentence-prediction"},
                         .labels = HeadLabels::kOrder,
                         .modules = {"mobilebert.pooler", "cls"},
                         .vocabulary = none,
                         .outputs = {"logits"}};
  return {
      .model_type = "mobilebert",
      .base_prefix = "mobilebert",
      .architectures = {{"MobileBertModel",
                         body_head({"feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                         make_model<MobileBertModel>},
                        {"MobileBertForSequenceClassification",
                         sequence_classification_head({"mobilebert.pooler", "classifier"}),
                         make_model<MobileBertForSequenceClassification>},
                        {"MobileBertForTokenClassification", token_classification_head({"classifier"}),
                         make_model<EncoderForTokenClassification<MobileBertBody>>},
                        {"MobileBertForQuestionAnswering", question_answering_head({"qa_outputs"}),
                         make_model<EncoderForQuestionAnswering<MobileBertBody>>},
                        {"MobileBertForMaskedLM", masked_lm_head({"cls"}, {"cls.predictions.decoder"}),
                         make_model<EncoderForMaskedLM<MobileBertBody, MobileBertPredictions>>},
                        {"MobileBertForPreTraining", pretraining, make_model<MobileBertForPreTraining>},
                        {"MobileBertForNextSentencePrediction", order, make_model<MobileBertForNextSentencePrediction>},
                        {"MobileBertForMultipleChoice", multiple_choice_head({"mobilebert.pooler", "classifier"}),
                         make_model<MobileBertForMultipleChoice>}},
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
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kMobileBertFamily{mobilebert_family};

}  // namespace transom
