// SPDX-License-Identifier: Apache-2.0
// ModernBERT (Warner et al., 2024): a pre-norm encoder with rotary positions, gated feed-forward layers and no biases,
// in which most layers see only the neighbourhood of each token. B batch, T time, D hidden, H heads, d head size.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "models/family.h"
#include "models/nn/attention/texts_in_rows.h"
#include "models/nn/weight.h"
#include "models/shared/encoder_model.h"
#include "models/shared/rotary/rotary_config.h"

namespace transom {
namespace {

struct ModernBertConfig {
  explicit ModernBertConfig(const Config& config);
  int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, max_position_embeddings,
      pad_token_id, local_attention, num_labels;
  std::string hidden_activation, classifier_activation, classifier_pooling, problem_type;
  double initializer_range, norm_eps, attention_dropout, embedding_dropout, mlp_dropout, classifier_dropout;
  bool norm_bias, attention_bias, mlp_bias, decoder_bias, classifier_bias, tie_word_embeddings;
  std::vector<bool> local;  // of each layer
  RotaryOptions global_rotary, local_rotary;

  Linear::Options inner(bool bias) const { return {.bias = bias, .deviation = initializer_range}; }
  Linear::Options outer(bool bias) const {  // of what is added to the residual stream
    return {.bias = bias, .deviation = initializer_range / std::sqrt(2.0 * static_cast<double>(num_hidden_layers))};
  }
  Linear::Options classes() const { return {.deviation = 1 / std::sqrt(static_cast<double>(hidden_size))}; }
};

// The rotary embedding of one kind of layers; transformers 4 had a field for the base of each.
RotaryOptions rotary_of(const Config& config, const ModernBertConfig& c, const std::string& layer_type, double theta,
                        const std::string& older) {
  if (!config.has("rope_parameters") && config.has(older)) theta = config.get_float(older);
  return rotary_options(config, {.head_width = c.hidden_size / c.num_attention_heads,
                                 .theta = theta,
                                 .max_positions = c.max_position_embeddings,
                                 .layer_type = layer_type});
}

ModernBertConfig::ModernBertConfig(const Config& config)
    : vocab_size(config.get_int("vocab_size", 50368)),
      hidden_size(config.get_int("hidden_size", 768)),
      intermediate_size(config.get_int("intermediate_size", 1152)),
      num_hidden_layers(config.get_int("num_hidden_layers", 22)),
      num_attention_heads(config.get_int("num_attention_heads", 12)),
      max_position_embeddings(config.get_int("max_position_embeddings", 8192)),
      pad_token_id(padding_id(config, 50283).value_or(-1)),
      local_attention(config.get_int("local_attention", 128)),
      num_labels(number_of_labels(config)),
      hidden_activation(config.get_string("hidden_activation", "gelu")),
      classifier_activation(config.get_string("classifier_activation", "gelu")),
      classifier_pooling(config.get_string("classifier_pooling", "cls")),
      problem_type(config.get_string("problem_type", "")),
      initializer_range(config.get_float("initializer_range", 0.02)),
      norm_eps(config.get_float("norm_eps", 1e-5)),
      attention_dropout(config.get_float("attention_dropout", 0)),
      embedding_dropout(config.get_float("embedding_dropout", 0)),
      mlp_dropout(config.get_float("mlp_dropout", 0)),
      classifier_dropout(config.get_float("classifier_dropout", 0)),
      norm_bias(config.get_bool("norm_bias", false)),
      attention_bias(config.get_bool("attention_bias", false)),
      mlp_bias(config.get_bool("mlp_bias", false)),
      decoder_bias(config.get_bool("decoder_bias", true)),
      classifier_bias(config.get_bool("classifier_bias", false)),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", true)) {
  if (num_attention_heads <= 0 || hidden_size % num_attention_heads != 0)
    fail("config.json: hidden_size {} is not divisible by num_attention_heads {}", hidden_size, num_attention_heads);
  if (classifier_pooling != "cls" && classifier_pooling != "mean")
    fail("config.json: classifier_pooling: expected cls or mean, found {}", quoted(classifier_pooling));
  const std::vector<std::string> types = config.get_strings("layer_types");
  if (!types.empty() && static_cast<int64_t>(types.size()) != num_hidden_layers)
    fail("config.json: layer_types: expected {} of them, found {}", num_hidden_layers, types.size());
  const int64_t every = config.get_int("global_attn_every_n_layers", 3);
  if (every < 1) fail("config.json: global_attn_every_n_layers: expected a number from 1, found {}", every);
  for (int64_t i = 0; i < num_hidden_layers; ++i) {
    const std::string type = !types.empty()   ? types[static_cast<size_t>(i)]
                             : i % every == 0 ? "full_attention"
                                              : "sliding_attention";
    if (type != "full_attention" && type != "sliding_attention")
      fail("config.json: layer_types: expected full_attention or sliding_attention, found {}", quoted(type));
    local.push_back(type == "sliding_attention");
  }
  global_rotary = rotary_of(config, *this, "full_attention", 160000, "global_rope_theta");
  local_rotary = rotary_of(config, *this, "sliding_attention", 10000, "local_rope_theta");
}

// What the layers of one kind see.
struct Surroundings {
  RotaryAngles angles;
  Tensor mask;  // additive, or empty
};

class ModernBertLayer {
 public:
  ModernBertLayer(const Scope& scope, const ModernBertConfig& c, int64_t i)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        activation_(c.hidden_activation),
        wqkv_(scope / "attn" / "Wqkv", c.hidden_size, 3 * c.hidden_size, c.inner(c.attention_bias)),
        attention_wo_(scope / "attn" / "Wo", c.hidden_size, c.hidden_size, c.outer(c.attention_bias)),
        mlp_norm_(scope / "mlp_norm", c.hidden_size, c.norm_eps, c.norm_bias),
        wi_(scope / "mlp" / "Wi", c.hidden_size, 2 * c.intermediate_size, c.inner(c.mlp_bias)),
        mlp_wo_(scope / "mlp" / "Wo", c.intermediate_size, c.hidden_size, c.outer(c.mlp_bias)),
        attention_dropout_(c.attention_dropout),
        mlp_dropout_(c.mlp_dropout) {
    // The embeddings are normed already.
    if (i > 0) attn_norm_.emplace(scope / "attn_norm", c.hidden_size, c.norm_eps, c.norm_bias);
  }

  Tensor operator()(const Tensor& x, const Surroundings& surroundings, ForwardContext& context) const {
    const ModuleScope module(path_);
    const Tensor h = x + attended(attn_norm_ ? (*attn_norm_)(x, context) : x, surroundings, context);
    const Tensor both = wi_(mlp_norm_(h, context), context);
    const int64_t half = both.dim(2) / 2;
    const Tensor gated = activation(activation_, slice(both, 2, 0, half)) * slice(both, 2, half, 2 * half);
    return h + mlp_wo_(mlp_dropout_(gated, context), context);
  }

 private:
  Tensor attended(const Tensor& x, const Surroundings& surroundings, ForwardContext& context) const {
    const int64_t B = x.dim(0), T = x.dim(1), d = x.dim(2) / heads_;
    const Tensor qkv = reshape(wqkv_(x, context), {B, T, 3, heads_, d});
    const auto part = [&](int64_t i) { return squeeze(slice(qkv, 2, i, i + 1), 2); };
    const Tensor mixed = attention(rotate(part(0), surroundings.angles), rotate(part(1), surroundings.angles), part(2),
                                   surroundings.mask, {.scale = 1 / std::sqrt(static_cast<double>(d)), .causal = false},
                                   attention_dropout_, context);
    return attention_dropout_(attention_wo_(mixed, context), context);
  }

  std::string path_;
  int64_t heads_;
  std::string activation_;
  std::optional<LayerNorm> attn_norm_;
  Linear wqkv_, attention_wo_;
  LayerNorm mlp_norm_;
  Linear wi_, mlp_wo_;
  Dropout attention_dropout_, mlp_dropout_;
};

class ModernBertBody {
 public:
  using Settings = ModernBertConfig;
  static constexpr const char* kPrefix = "model";
  static constexpr bool kTextsInRows = true;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids", "attention_mask", "position_ids", "inputs_embeds", target};
  }

  ModernBertBody(const Scope& scope, const ModernBertConfig& c)
      : local_(c.local),
        window_(c.local_attention / 2),
        tok_embeddings_(scope / "embeddings" / "tok_embeddings", c.vocab_size, c.hidden_size, c.initializer_range,
                        c.pad_token_id),
        norm_(scope / "embeddings" / "norm", c.hidden_size, c.norm_eps, c.norm_bias),
        dropout_(c.embedding_dropout),
        global_rotary_(c.global_rotary),
        local_rotary_(c.local_rotary),
        final_norm_(scope / "final_norm", c.hidden_size, c.norm_eps, c.norm_bias) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / "layers" / i, c, i);
  }

  // The last of the hidden states is normed.
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const EncoderInputs in = encoder_inputs(inputs, std::numeric_limits<int64_t>::max(), std::nullopt, context.texts);
    const Tensor words = in.inputs_embeds.defined() ? in.inputs_embeds : tok_embeddings_(in.input_ids, context);
    Tensor x = dropout_(norm_(words, context), context);
    const Surroundings global{global_rotary_(in.position_ids), in.mask};
    std::optional<TextsInRows> near;
    if (context.texts) near = within_window(*context.texts, window_);
    const Surroundings local{local_rotary_(in.position_ids), near ? Tensor() : neighbourhood(in.mask, in.length)};
    const TextsInRows* whole = context.texts;

    EncoderOutput output;
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (context.output_hidden_states) output.hidden_states.push_back(x);
      const auto through = [&](const std::vector<Tensor>& y) {
        return layers_[i](y[0], local_[i] ? local : global, context);
      };
      context.texts = near && local_[i] ? &*near : whole;
      x = context.gradient_checkpointing && context.training ? checkpoint(through, {x}) : through({x});
      context.texts = whole;
    }
    output.last_hidden_state = final_norm_(x, context);
    if (context.output_hidden_states) output.hidden_states.push_back(output.last_hidden_state);
    return output;
  }
  const Embedding& word_embeddings() const { return tok_embeddings_; }

 private:
  // The mask of layers that see no further than the window.
  Tensor neighbourhood(const Tensor& mask, int64_t T) const {
    const Tensor distance = abs(iota({T, T}, 0) - iota({T, T}, 1));
    const Tensor near = less_equal(distance, full({T, T}, static_cast<double>(window_), DType::kInt64));
    if (!mask.defined()) return reshape(additive_where(near), {1, 1, T, T});
    const Shape all{mask.dim(0), 1, T, T};
    return select(broadcast_to(near, all), broadcast_to(mask, all), broadcast_to(additive_where(near), all));
  }

  std::vector<bool> local_;
  int64_t window_;
  Embedding tok_embeddings_;
  LayerNorm norm_;
  Dropout dropout_;
  RotaryEmbedding global_rotary_, local_rotary_;
  std::vector<ModernBertLayer> layers_;
  LayerNorm final_norm_;
};

// The dense layer that every head begins with.
class PredictionHead {
 public:
  PredictionHead(const Scope& scope, const ModernBertConfig& c)
      : activation_(c.classifier_activation),
        dense_(scope / "dense", c.hidden_size, c.hidden_size, c.outer(c.classifier_bias)),
        norm_(scope / "norm", c.hidden_size, c.norm_eps, c.norm_bias) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return norm_(activation(activation_, dense_(x, context)), context);
  }

 private:
  std::string activation_;
  Linear dense_;
  LayerNorm norm_;
};

class ModernBertModel : public EncoderModel<ModernBertBody> {
 public:
  ModernBertModel(const Config& config, const Scope& scope) : EncoderModel<ModernBertBody>(config, scope, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}};
    });
  }
};

class ModernBertForMaskedLM : public EncoderModel<ModernBertBody> {
 public:
  ModernBertForMaskedLM(const Config& config, const Scope& scope)
      : EncoderModel<ModernBertBody>(config, scope),
        head_(scope / "head", config_),
        weight_(config_.tie_word_embeddings
                    ? body_.word_embeddings().weight()
                    : scope.parameter("decoder.weight", {config_.vocab_size, config_.hidden_size},
                                      Initial::normal(config_.outer(false).deviation))) {
    // The loss is the same; the logits of all places are given beside it.
    const int64_t ignored = config.get_int("sparse_pred_ignore_index", -100);
    if (config.get_bool("sparse_prediction", false) && ignored != -100)
      fail(ErrorKind::kUnsupported, "{}: sparse_pred_ignore_index: expected -100, found {}", config.where(), ignored);
    if (config_.tie_word_embeddings) scope.tied("decoder.weight", weight_);
    if (config_.decoder_bias) bias_ = scope.parameter("decoder.bias", {config_.vocab_size}, Initial::zeros());
  }

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return token_outputs(linear(head_(hidden, context), *weight_, bias_ ? bias_->value : Tensor(), context), inputs,
                           context);
    });
  }

 private:
  PredictionHead head_;
  std::shared_ptr<Parameter> weight_, bias_;
};

// A head and a classifier behind it; what is pooled, and how the loss is made, is each class' own.
class ModernBertClassifier : public EncoderModel<ModernBertBody> {
 protected:
  ModernBertClassifier(const Config& config, const Scope& scope, std::optional<int64_t> classes = {})
      : EncoderModel<ModernBertBody>(config, scope),
        head_(scope / "head", config_),
        dropout_(config_.classifier_dropout),
        classifier_(scope / "classifier", config_.hidden_size, classes.value_or(config_.num_labels),
                    config_.classes()) {}
  Tensor classified(const Tensor& x, ForwardContext& context) const {
    return classifier_(dropout_(head_(x, context), context), context);
  }
  // The mean over the tokens that count: [B, T, D] -> [B, D].
  static Tensor mean_pooled(const Tensor& hidden, const Tensor& mask) {
    if (!mask.defined()) return mean(hidden, {1});
    const Tensor weights = unsqueeze(cast(mask, hidden.dtype()), 2);
    return reduce_sum(hidden * weights, {1}) / reduce_sum(weights, {1});
  }

 private:
  PredictionHead head_;
  Dropout dropout_;
  Linear classifier_;
};

class ModernBertForSequenceClassification : public ModernBertClassifier {
 public:
  ModernBertForSequenceClassification(const Config& config, const Scope& scope) : ModernBertClassifier(config, scope) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      const Tensor pooled = config_.classifier_pooling == "cls" ? first_token(hidden)
                                                                : mean_pooled(hidden, inputs.find("attention_mask"));
      return sequence_classification_outputs(classified(pooled, context), inputs, config_.problem_type, context);
    });
  }
};

class ModernBertForTokenClassification : public ModernBertClassifier {
 public:
  ModernBertForTokenClassification(const Config& config, const Scope& scope) : ModernBertClassifier(config, scope) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context,
                     [&](const Tensor& hidden) { return token_outputs(classified(hidden, context), inputs, context); });
  }
};

class ModernBertForQuestionAnswering : public ModernBertClassifier {
 public:
  ModernBertForQuestionAnswering(const Config& config, const Scope& scope) : ModernBertClassifier(config, scope, 2) {}

 protected:
  std::vector<std::string> input_names() const override {
    return {"input_ids", "attention_mask", "position_ids", "inputs_embeds", "start_positions", "end_positions"};
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context,
                     [&](const Tensor& hidden) { return span_outputs(classified(hidden, context), inputs, context); });
  }
};

class ModernBertForMultipleChoice : public ModernBertClassifier {
 public:
  ModernBertForMultipleChoice(const Config& config, const Scope& scope) : ModernBertClassifier(config, scope, 1) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const int64_t choices = choices_of(inputs);
    const NamedTensors flat = flattened_choices(inputs);
    return with_head(flat, context, [&](const Tensor& hidden) {
      const Tensor mask = flat.find("attention_mask");
      const Tensor pooled =
          config_.classifier_pooling == "cls" ? first_counted(hidden, mask) : mean_pooled(hidden, mask);
      return choice_outputs(classified(pooled, context), choices, inputs, context);
    });
  }

 private:
  // The first token that is no padding.
  static Tensor first_counted(const Tensor& hidden, const Tensor& mask) {
    if (!mask.defined()) return first_token(hidden);
    const Tensor place = arg_max(cast(mask, DType::kInt64), 1);
    const Tensor chosen = equal(iota(mask.shape(), 1), broadcast_to(unsqueeze(place, 1), mask.shape()));
    return reduce_sum(hidden * unsqueeze(cast(chosen, hidden.dtype()), 2), {1});
  }
};

}  // namespace

static Family modernbert_family() {
  return {
      .model_type = "modernbert",
      .base_prefix = "model",
      .architectures = {{"ModernBertModel", body_head({"feature-extraction"}), make_model<ModernBertModel>},
                        {"ModernBertForMaskedLM", masked_lm_head({"head", "decoder"}, {"decoder"}),
                         make_model<ModernBertForMaskedLM>},
                        {"ModernBertForSequenceClassification", sequence_classification_head({"head", "classifier"}),
                         make_model<ModernBertForSequenceClassification>},
                        {"ModernBertForTokenClassification", token_classification_head({"head", "classifier"}),
                         make_model<ModernBertForTokenClassification>},
                        {"ModernBertForQuestionAnswering", question_answering_head({"head", "classifier"}),
                         make_model<ModernBertForQuestionAnswering>},
                        {"ModernBertForMultipleChoice", multiple_choice_head({"head", "classifier"}),
                         make_model<ModernBertForMultipleChoice>}},
      .inputs = placed_text_inputs(),
      .processors = {.tokenizer = none,
                     .image_processor = none,
                     .positions = PositionLimit{.fields = {"max_position_embeddings"}, .has_table = false},
                     .spaced_words = false,
                     .spans = false},
      .weights = {.lora_targets = none,
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = true,
                  .multi_query = none},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = true}};
}

const RegisterFamilies kModernbertFamily{modernbert_family};

}  // namespace transom
