// SPDX-License-Identifier: Apache-2.0
// T5 (Raffel et al., 2020), 1.0 and 1.1: pre-norm with RMS norms, no biases, unscaled attention, and in place of
// positions a bias on scores that depends on the distance of two tokens, which the first layer of a stack has and all
// layers use. mT5 (Xue et al., 2021) is T5 1.1 for many languages; in UMT5 (Chung et al., 2023) each layer has a bias
// of its own. B batch, T time, S time of the source, D hidden, H heads, V vocabulary.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/families/t5/t5_gguf.h"
#include "models/shared/encoder_decoder.h"
#include "models/shared/relative_buckets.h"
#include "transom/layers.h"

namespace transom {
namespace {

// What sets the relatives apart.
struct T5Variant {
  const char* defaults = "{}";      // where the configuration is silent
  bool bias_in_each_layer = false;  // by distance
  bool scales_head = true;          // what the head reads, where tie_word_embeddings does not say false
};

struct T5Config {
  T5Config(const Config& given, const T5Variant& variant) : T5Config(with_defaults(given, variant.defaults)) {
    bias_in_each_layer = variant.bias_in_each_layer;
    ties_head = scale_decoder_outputs || !variant.scales_head;
    scale_decoder_outputs = scale_decoder_outputs && variant.scales_head;
  }
  explicit T5Config(const Config& config);
  int64_t vocab_size, d_model, d_kv, d_ff, num_layers, num_decoder_layers, num_heads, relative_attention_num_buckets,
      relative_attention_max_distance, pad_token_id, eos_token_id, decoder_start_token_id, num_labels;
  double dropout_rate, classifier_dropout, layer_norm_epsilon, initializer_factor;
  std::string dense_act_fn, problem_type;
  bool is_gated_act = false, bias_in_each_layer = false, ties_head = true, tie_word_embeddings, scale_decoder_outputs;

  // Deviation of new weights that map from this width.
  double deviation(int64_t width) const { return initializer_factor / std::sqrt(static_cast<double>(width)); }
  Linear::Options from(int64_t width) const { return {.bias = false, .deviation = deviation(width)}; }
};

T5Config::T5Config(const Config& config)
    : vocab_size(config.get_int("vocab_size", 32128)),
      d_model(config.get_int("d_model", 512)),
      d_kv(config.get_int("d_kv", 64)),
      d_ff(config.get_int("d_ff", 2048)),
      num_layers(config.get_int("num_layers", 6)),
      num_decoder_layers(config.get_int("num_decoder_layers", num_layers)),
      num_heads(config.get_int("num_heads", 8)),
      relative_attention_num_buckets(config.get_int("relative_attention_num_buckets", 32)),
      relative_attention_max_distance(config.get_int("relative_attention_max_distance", 128)),
      pad_token_id(config.get_int("pad_token_id", 0)),
      eos_token_id(config.get_int("eos_token_id", 1)),
      decoder_start_token_id(config.get_int("decoder_start_token_id", pad_token_id)),
      num_labels(number_of_labels(config)),
      dropout_rate(config.get_float("dropout_rate", 0.1)),
      classifier_dropout(config.get_float("classifier_dropout", 0)),
      layer_norm_epsilon(config.get_float("layer_norm_epsilon", 1e-6)),
      initializer_factor(config.get_float("initializer_factor", 1)),
      dense_act_fn(config.get_string("feed_forward_proj", "relu")),
      problem_type(config.get_string("problem_type", "")),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", true)),
      scale_decoder_outputs(config.get_bool("scale_decoder_outputs", tie_word_embeddings)) {
  if (dense_act_fn.starts_with("gated-")) {
    is_gated_act = true;
    dense_act_fn = dense_act_fn.substr(6);
    if (dense_act_fn == "gelu") dense_act_fn = "gelu_new";
  }
  // What files have beside feed_forward_proj counts where it says something else.
  dense_act_fn = config.get_string("dense_act_fn", dense_act_fn);
  is_gated_act = config.get_bool("is_gated_act", is_gated_act);
  if (num_heads <= 0 || d_kv <= 0) fail("config.json: num_heads {} and d_kv {} must be positive", num_heads, d_kv);
  constexpr int64_t kFarthest = int64_t{1} << 20;
  if (relative_attention_max_distance > kFarthest)
    fail("config.json: relative_attention_max_distance: expected at most {}, found {}", kFarthest,
         relative_attention_max_distance);
  if (relative_attention_num_buckets < 4 || relative_attention_max_distance <= relative_attention_num_buckets / 2)
    fail(
        "config.json: relative_attention_num_buckets {}: expected 4 or more, and relative_attention_max_distance above "
        "half of it, found {}",
        relative_attention_num_buckets, relative_attention_max_distance);
}

// The bias on scores of queries at the places `query` [B or 1, T] for S keys: [B or 1, H, T, S]. A cache may have any
// number of tokens, so that places of queries are values, not constants.
Tensor position_bias(const Embedding& embedding, const T5Config& c, bool both_sides, const Tensor& query, int64_t S,
                     ForwardContext& context) {
  return bucketed_bias(embedding,
                       {.count = c.relative_attention_num_buckets,
                        .farthest = c.relative_attention_max_distance,
                        .both_sides = both_sides},
                       iota({1, 1, S}, 2) - unsqueeze(query, -1), context);
}

class T5Attention {
 public:
  T5Attention(const Scope& scope, const T5Config& c)
      : heads_(c.num_heads),
        d_kv_(c.d_kv),
        q_(scope / "q", c.d_model, c.num_heads * c.d_kv, {.bias = false, .deviation = c.deviation(c.d_model * c.d_kv)}),
        k_(scope / "k", c.d_model, c.num_heads * c.d_kv, c.from(c.d_model)),
        v_(scope / "v", c.d_model, c.num_heads * c.d_kv, c.from(c.d_model)),
        o_(scope / "o", c.num_heads * c.d_kv, c.d_model, c.from(c.num_heads * c.d_kv)),
        dropout_(c.dropout_rate) {}

  Tensor operator()(const Tensor& x, const Tensor& bias, ForwardContext& context) const {  // all see all
    return o_(attention(split(q_(x, context)), split(k_(x, context)), split(v_(x, context)), bias,
                        {.scale = 1, .causal = false}, dropout_, context),
              context);
  }
  Tensor causal(int64_t layer, const Tensor& x, const Tensor& bias, bool causal, ForwardContext& context) const {
    return o_(cached_attention(layer, split(q_(x, context)), split(k_(x, context)), split(v_(x, context)), bias,
                               {.scale = 1, .causal = causal}, dropout_, context),
              context);
  }
  Tensor across(int64_t layer, const Tensor& x, const EncodedSource& source, ForwardContext& context) const {
    const KeysAndValues seen = source_keys(layer, source, context, [&](const Tensor& states) {
      return KeysAndValues{split(k_(states, context)), split(v_(states, context))};
    });
    return o_(attention_to_source(split(q_(x, context)), seen, source.mask, 1, dropout_, context), context);
  }

 private:
  Tensor split(const Tensor& x) const { return reshape(x, {x.dim(0), x.dim(1), heads_, d_kv_}); }
  int64_t heads_, d_kv_;
  Linear q_, k_, v_, o_;
  Dropout dropout_;
};

class T5FeedForward {
 public:
  T5FeedForward(const Scope& scope, const T5Config& c)
      : activation_(c.dense_act_fn),
        wi_(scope / (c.is_gated_act ? "wi_0" : "wi"), c.d_model, c.d_ff, c.from(c.d_model)),
        wo_(scope / "wo", c.d_ff, c.d_model, c.from(c.d_ff)),
        dropout_(c.dropout_rate) {
    if (c.is_gated_act) wi_1_.emplace(scope / "wi_1", c.d_model, c.d_ff, c.from(c.d_model));
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor h = activation(activation_, wi_(x, context));
    return wo_(dropout_(wi_1_ ? h * (*wi_1_)(x, context) : h, context), context);
  }

 private:
  std::string activation_;
  Linear wi_, wo_;
  std::optional<Linear> wi_1_;
  Dropout dropout_;
};

class T5Block {
 public:
  T5Block(const Scope& scope, const T5Config& c, int64_t place, bool decoder)
      : path_(scope.path()),
        place_(place),
        self_attention_(scope / "layer" / 0 / "SelfAttention", c),
        self_norm_(scope / "layer" / 0 / "layer_norm", c.d_model, c.layer_norm_epsilon),
        feed_forward_(scope / "layer" / (decoder ? 2 : 1) / "DenseReluDense", c),
        feed_forward_norm_(scope / "layer" / (decoder ? 2 : 1) / "layer_norm", c.d_model, c.layer_norm_epsilon),
        dropout_(c.dropout_rate) {
    if (!decoder) return;
    cross_attention_.emplace(scope / "layer" / 1 / "EncDecAttention", c);
    cross_norm_.emplace(scope / "layer" / 1 / "layer_norm", c.d_model, c.layer_norm_epsilon);
  }

  int64_t place() const { return place_; }
  Tensor operator()(const Tensor& x, const Tensor& bias, ForwardContext& context) const {
    const ModuleScope module(path_);
    const Tensor h = x + dropout_(self_attention_(self_norm_(x, context), bias, context), context);
    return h + dropout_(feed_forward_(feed_forward_norm_(h, context), context), context);
  }
  Tensor operator()(const Tensor& x, const Tensor& bias, bool causal, const EncodedSource& source,
                    ForwardContext& context) const {
    const ModuleScope module(path_);
    Tensor h = x + dropout_(self_attention_.causal(place_, self_norm_(x, context), bias, causal, context), context);
    h = h + dropout_(cross_attention_->across(place_, (*cross_norm_)(h, context), source, context), context);
    return h + dropout_(feed_forward_(feed_forward_norm_(h, context), context), context);
  }

 private:
  std::string path_;
  int64_t place_;
  T5Attention self_attention_;
  RmsNorm self_norm_;
  std::optional<T5Attention> cross_attention_;
  std::optional<RmsNorm> cross_norm_;
  T5FeedForward feed_forward_;
  RmsNorm feed_forward_norm_;
  Dropout dropout_;
};

class T5Stack {
 public:
  T5Stack(const Scope& scope, const T5Config& c, const Embedding& shared, bool decoder)
      : c_(c),
        decoder_(decoder),
        embed_tokens_(shared),
        final_layer_norm_(scope / "final_layer_norm", c.d_model, c.layer_norm_epsilon),
        dropout_(c.dropout_rate) {
    const int64_t layers = decoder ? c.num_decoder_layers : c.num_layers;
    for (int64_t i = 0; i < layers; ++i) {
      if (i == 0 || c.bias_in_each_layer)
        relative_attention_bias_.emplace_back(
            scope / "block" / i / "layer" / 0 / "SelfAttention" / "relative_attention_bias",
            c.relative_attention_num_buckets, c.num_heads, c.deviation(c.d_model));
      block_.emplace_back(scope / "block" / i, c, i, decoder);
    }
  }

  DecoderOutput operator()(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const {
    const Tensor x =
        dropout_(in.inputs_embeds.defined() ? in.inputs_embeds : embed_tokens_(in.input_ids, context), context);
    const bool cached = decoder_ && context.cache;
    const auto bias_of = [&](const Embedding& embedding) {
      const Tensor bias = position_bias(embedding, c_, !decoder_, in.position_ids,
                                        cached ? context.cache->places().dim(1) : in.length, context);
      return in.bias.defined() ? bias + in.bias : bias;
    };
    const Tensor shared = block_.empty() || c_.bias_in_each_layer ? Tensor() : bias_of(relative_attention_bias_[0]);
    const auto norm = [&](const Tensor& y, ForwardContext&) {
      return dropout_(final_layer_norm_(y, context), context);
    };
    return through_decoder(block_, x, context, norm, [&](const T5Block& block, const Tensor& y) {
      const Tensor bias =
          shared.defined() ? shared : bias_of(relative_attention_bias_[static_cast<size_t>(block.place())]);
      return decoder_ ? block(y, bias, in.causal, source, context) : block(y, bias, context);
    });
  }

 private:
  T5Config c_;
  bool decoder_;
  Embedding embed_tokens_;
  std::vector<Embedding> relative_attention_bias_;  // of the first block for all of them, or one of each
  std::vector<T5Block> block_;
  RmsNorm final_layer_norm_;
  Dropout dropout_;
};

// The encoder's inputs; it has no use for the cache of the decoder.
EncoderOutput encoded(const T5Stack& encoder, const NamedTensors& inputs, ForwardContext& context) {
  KeyValueCache* const cache = context.cache;
  context.cache = nullptr;
  NamedTensors own;
  for (const char* name : {"input_ids", "attention_mask", "inputs_embeds"})
    if (const Tensor tensor = inputs.find(name); tensor.defined()) own.set(name, tensor);
  const DecoderOutput output = encoder(decoder_inputs(own, context, Positions::kInOrder), {}, context);
  context.cache = cache;
  return {output.last_hidden_state, output.hidden_states};
}

class T5 : public EncoderDecoder {
 public:
  T5(const Scope& scope, const T5Config& c)
      : shared(shared_embedding(scope, c.vocab_size, c.d_model, c.initializer_factor)),
        encoder_(scope / "encoder", c, shared, false),
        decoder_(scope / "decoder", c, shared, true) {}

  EncoderOutput encode(const NamedTensors& inputs, ForwardContext& context) const override {
    return encoded(encoder_, inputs, context);
  }
  DecoderOutput decode(const DecoderInputs& in, const EncodedSource& source, ForwardContext& context) const override {
    return decoder_(in, source, context);
  }

  Embedding shared;

 private:
  T5Stack encoder_, decoder_;
};

class T5WithHead : public Model {
 protected:
  T5WithHead(const T5Config& c, const Scope& scope) : c_(c), transformer_(scope, c_) {}
  std::vector<std::string> input_names() const override { return encoder_decoder_input_names(); }
  EncoderDecoderOutput with_shifted_ids(const NamedTensors& inputs, ForwardContext& context) const {
    const Tensor ids = inputs.at("input_ids");
    return transformer_(inputs, shifted_right(ids, c_.decoder_start_token_id, c_.pad_token_id), context);
  }

  T5Config c_;
  T5 transformer_;
};

class T5Model : public T5WithHead {
 public:
  T5Model(const T5Config& c, const Scope& scope) : T5WithHead(c, scope) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return body_outputs(transformer_(inputs, {}, context));
  }
};

class T5ForConditionalGeneration : public ConditionalGenerationModel {
 public:
  // tie_word_embeddings says whether the head is scaled. Whether it has a weight of its own, what is stored decides.
  T5ForConditionalGeneration(const T5Config& c, const Scope& scope)
      : ConditionalGenerationModel(c.decoder_start_token_id, c.pad_token_id),
        scale_(c.scale_decoder_outputs ? 1 / std::sqrt(static_cast<double>(c.d_model)) : 1),
        transformer_(scope, c),
        lm_head_(scope, "lm_head.weight", transformer_.shared,
                 (c.tie_word_embeddings && c.ties_head) || !scope.holds("lm_head.weight"), c.d_model, c.vocab_size,
                 c.initializer_factor) {}

 protected:
  const EncoderDecoder& body() const override { return transformer_; }
  Tensor logits(const Tensor& hidden, ForwardContext& context) const override {
    return lm_head_(scale_ == 1 ? hidden : hidden * scale_, context);
  }

 private:
  double scale_;
  T5 transformer_;
  VocabularyHead lm_head_;
};

class T5EncoderBody {
 public:
  T5EncoderBody(const Scope& scope, const T5Config& c)
      : encoder_(scope / "encoder", c, shared_embedding(scope, c.vocab_size, c.d_model, c.initializer_factor), false) {}
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    return encoded(encoder_, inputs, context);
  }

 private:
  T5Stack encoder_;
};

class T5EncoderModel : public Model {
 public:
  T5EncoderModel(const T5Config& c, const Scope& scope) : body_(scope, c) {}

 protected:
  std::vector<std::string> input_names() const override { return {"input_ids", "attention_mask", "inputs_embeds"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput output = body_(inputs, context);
    NamedTensors outputs{{"last_hidden_state", output.last_hidden_state}};
    add_hidden_states(outputs, output.hidden_states);
    return outputs;
  }

 private:
  T5EncoderBody body_;
};

class T5ForTokenClassification : public Model {
 public:
  T5ForTokenClassification(const T5Config& c, const Scope& scope)
      : c_(c),
        transformer_(scope / "transformer", c_),
        dropout_(c_.classifier_dropout),
        classifier_(scope / "classifier", c_.d_model, c_.num_labels, {.deviation = c_.initializer_factor}) {}

 protected:
  std::vector<std::string> input_names() const override {
    return {"input_ids", "attention_mask", "inputs_embeds", "labels"};
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderOutput output = transformer_(inputs, context);
    NamedTensors outputs =
        token_outputs(classifier_(dropout_(output.last_hidden_state, context), context), inputs, context);
    add_hidden_states(outputs, output.hidden_states);
    return outputs;
  }

 private:
  T5Config c_;
  T5EncoderBody transformer_;
  Dropout dropout_;
  Linear classifier_;
};

class T5ForSequenceClassification : public T5WithHead {
 public:
  T5ForSequenceClassification(const T5Config& c, const Scope& scope)
      : T5WithHead(c, scope / "transformer"),
        classification_head_(scope / "classification_head", c_.d_model, c_.num_labels, c_.classifier_dropout,
                             c_.deviation(c_.d_model)) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderDecoderOutput output = with_shifted_ids(inputs, context);
    const Tensor state = at_last(output.decoder.last_hidden_state, inputs.at("input_ids"), c_.eos_token_id);
    const Tensor logits = classification_head_(state, context);
    return with_body_outputs(sequence_classification_outputs(logits, inputs, c_.problem_type, context), output);
  }

 private:
  TextClassificationHead classification_head_;
};

class T5ForQuestionAnswering : public T5WithHead {
 public:
  T5ForQuestionAnswering(const T5Config& c, const Scope& scope)
      : T5WithHead(c, scope),
        qa_outputs_(scope / "qa_outputs", c_.d_model, 2, {.deviation = c_.deviation(c_.d_model)}) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = encoder_decoder_input_names();
    names.back() = "start_positions";
    names.push_back("end_positions");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const EncoderDecoderOutput output = with_shifted_ids(inputs, context);
    return with_body_outputs(span_outputs(qa_outputs_(output.decoder.last_hidden_state, context), inputs, context),
                             output);
  }

 private:
  Linear qa_outputs_;
};

template <const T5Variant& variant, typename M>
std::unique_ptr<Model> make_t5(const Config& config, const Scope& scope) {
  return std::make_unique<M>(T5Config(config, variant), scope);
}

constexpr T5Variant kT5{};
constexpr T5Variant kMT5{.defaults = R"({"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6,
                                         "feed_forward_proj": "gated-gelu"})",
                         .scales_head = false};
constexpr T5Variant kUMT5{.defaults = kMT5.defaults, .bias_in_each_layer = true};

// `prefix`: of the names of classes.
template <const T5Variant& variant>
Family t5_family_of(const std::string& model_type, const std::string& prefix) {
  return {
      .model_type = model_type,
      .base_prefix = "transformer",
      .architectures = {{prefix + "Model", body_head({}), make_t5<variant, T5Model>},
                        {prefix + "EncoderModel", body_head({"feature-extraction"}), make_t5<variant, T5EncoderModel>,
                         text_inputs()},
                        {prefix + "ForConditionalGeneration",
                         sequence_to_sequence_head({"text2text-generation", "summarization", "translation"},
                                                   {"lm_head"}, "lm_head"),
                         make_t5<variant, T5ForConditionalGeneration>},
                        {prefix + "ForSequenceClassification", sequence_classification_head({"classification_head"}),
                         make_t5<variant, T5ForSequenceClassification>, text_to_text_inputs(false)},
                        {prefix + "ForTokenClassification", token_classification_head({"classifier"}),
                         make_t5<variant, T5ForTokenClassification>, text_inputs()},
                        {prefix + "ForQuestionAnswering", question_answering_head({"qa_outputs"}),
                         make_t5<variant, T5ForQuestionAnswering>, text_to_text_inputs(false)}},
      .inputs = text_to_text_inputs(),
      .ties_scale_head = true,
      .processors =
          {.tokenizer = "T5", .image_processor = none, .positions = none, .spaced_words = false, .spans = true},
      .weights = {.lora_targets = {"q", "v"},
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = true,
                  .multi_query = none,
                  .adapter_targets = {.ia3 = {"k", "v", "wo"},
                                      .ia3_feedforward = {"wo"},
                                      .norms = {"layer_norm", "final_layer_norm"},
                                      .adalora = {"q", "k", "v", "o", "wi", "wo"}}},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = false}};
}

}  // namespace

static Family t5_family() {
  const std::vector<std::string> newer = {"T5ForQuestionAnswering", "T5ForSequenceClassification",
                                          "T5ForTokenClassification"};
  Family family = t5_family_of<kT5>("t5", "T5");
  family.foreign = {.gguf = t5_gguf(),
                    .keras = KerasNames{.body = "", .without = newer, .scale = "weight"},
                    .flax = FlaxNames{.without = newer, .scale = "weight"},
                    // Beside Stable Diffusion 3 and FLUX, under the same names.
                    .original = {{.beginnings = {"text_encoders.t5xxl.transformer.", ""},
                                  .mark = "shared.weight",
                                  .width = "d_model",
                                  .architecture = "T5EncoderModel"}}};
  return family;
}
static Family mt5_family() { return t5_family_of<kMT5>("mt5", "MT5"); }
static Family umt5_family() { return t5_family_of<kUMT5>("umt5", "UMT5"); }

const RegisterFamilies kT5Families{t5_family, mt5_family, umt5_family};

}  // namespace transom
