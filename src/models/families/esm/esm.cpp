// SPDX-License-Identifier: Apache-2.0
// ESM-2 and ESM-1b (Lin et al., 2023; Rives et al., 2021), models of proteins: a pre-norm BERT, with rotary positions
// or a table of them, in which masked tokens are read as nought and what is left is scaled up. B batch, T time, D
// hidden, H heads, d head size.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "models/families/roberta/roberta_heads.h"
#include "models/family.h"
#include "models/nn/attention/rotary.h"
#include "models/nn/weight.h"
#include "models/shared/decoder.h"

namespace transom {
namespace {

constexpr double kMaskedInTraining = 0.15 * 0.8;  // of the tokens, when all ESM models were trained

struct EsmConfig {
  explicit EsmConfig(const Config& config);
  int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, max_position_embeddings,
      mask_token_id, num_labels;
  std::optional<int64_t> pad_token_id;
  double hidden_dropout_prob, attention_probs_dropout_prob, classifier_dropout, layer_norm_eps, initializer_range,
      rope_theta;
  std::string problem_type;
  bool rotary, emb_layer_norm_before, token_dropout, tie_word_embeddings;
  int64_t head_size() const { return hidden_size / num_attention_heads; }
  Linear::Options new_weights() const { return {.deviation = initializer_range}; }
};

EsmConfig::EsmConfig(const Config& config)
    : vocab_size(config.get_int("vocab_size", 33)),
      hidden_size(config.get_int("hidden_size", 768)),
      num_hidden_layers(config.get_int("num_hidden_layers", 12)),
      num_attention_heads(config.get_int("num_attention_heads", 12)),
      intermediate_size(config.get_int("intermediate_size", 3072)),
      max_position_embeddings(config.get_int("max_position_embeddings", 1026)),
      mask_token_id(config.get_int("mask_token_id", -1)),
      num_labels(number_of_labels(config)),
      hidden_dropout_prob(config.get_float("hidden_dropout_prob", 0.1)),
      attention_probs_dropout_prob(config.get_float("attention_probs_dropout_prob", 0.1)),
      classifier_dropout(hidden_dropout_prob),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-12)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      rope_theta(config.get_float("rope_theta", 10000)),
      problem_type(config.get_string("problem_type", "")),
      emb_layer_norm_before(config.get_bool("emb_layer_norm_before", false)),
      token_dropout(config.get_bool("token_dropout", false)),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", true)) {
  if (config.has("pad_token_id")) pad_token_id = config.get_int("pad_token_id");
  for (const char* field : {"is_folding_model", "is_decoder", "add_cross_attention"})
    refuse_unless(config, field, "false");
  const std::string positions = config.get_string("position_embedding_type", "absolute");
  if (positions != "absolute" && positions != "rotary")
    fail(ErrorKind::kUnsupported,
         "config.json: position_embedding_type: {} is not carried out; absolute and rotary are", quoted(positions));
  rotary = positions == "rotary";
  if (num_attention_heads <= 0 || hidden_size % num_attention_heads != 0)
    fail("config.json: hidden_size {} is not divisible by num_attention_heads {}", hidden_size, num_attention_heads);
  if (rotary && head_size() % 2 != 0) fail("config.json: heads of {} numbers: expected an even number", head_size());
  if (!rotary && !pad_token_id)
    fail("config.json: pad_token_id: expected a number, behind which positions begin, found none");
  if (token_dropout && mask_token_id < 0)
    fail("config.json: mask_token_id: expected a number, since token_dropout reads masked tokens as nought");
}

class EsmLayer {
 public:
  EsmLayer(const Scope& scope, const EsmConfig& c)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        query_(scope / "attention" / "self" / "query", c.hidden_size, c.hidden_size, c.new_weights()),
        key_(scope / "attention" / "self" / "key", c.hidden_size, c.hidden_size, c.new_weights()),
        value_(scope / "attention" / "self" / "value", c.hidden_size, c.hidden_size, c.new_weights()),
        attention_output_(scope / "attention" / "output" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        attention_norm_(scope / "attention" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        intermediate_(scope / "intermediate" / "dense", c.hidden_size, c.intermediate_size, c.new_weights()),
        output_(scope / "output" / "dense", c.intermediate_size, c.hidden_size, c.new_weights()),
        norm_(scope / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        attention_dropout_(c.attention_probs_dropout_prob),
        dropout_(c.hidden_dropout_prob) {}

  // `angles`: empty without rotary positions.
  Tensor operator()(const Tensor& x, const std::optional<RotaryAngles>& angles, const Tensor& mask,
                    ForwardContext& context) const {
    const ModuleScope module(path_);
    const Tensor read = attention_norm_(x, context);
    const auto split = [&](const Tensor& y) { return reshape(y, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_}); };
    const auto turned = [&](const Tensor& y) { return angles ? rotate(y, *angles) : y; };
    const double scale = 1 / std::sqrt(static_cast<double>(x.dim(2) / heads_));
    const Tensor mixed =
        attention(turned(split(query_(read, context))), turned(split(key_(read, context))),
                  split(value_(read, context)), mask, {.scale = scale, .causal = false}, attention_dropout_, context);
    const Tensor h = x + dropout_(attention_output_(mixed, context), context);
    return h + dropout_(output_(gelu(intermediate_(norm_(h, context), context)), context), context);
  }

 private:
  std::string path_;
  int64_t heads_;
  Linear query_, key_, value_, attention_output_;
  LayerNorm attention_norm_;
  Linear intermediate_, output_;
  LayerNorm norm_;
  Dropout attention_dropout_, dropout_;
};

class EsmBody {
 public:
  using Settings = EsmConfig;
  static constexpr const char* kPrefix = "esm";
  static constexpr bool kTextsInRows = false;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids", "attention_mask", "position_ids", "inputs_embeds", target};
  }

  EsmBody(const Scope& scope, const EsmConfig& c)
      : c_(c),
        word_embeddings_(scope / "embeddings" / "word_embeddings", c.vocab_size, c.hidden_size, c.initializer_range,
                         c.pad_token_id.value_or(-1)),
        emb_layer_norm_after_(scope / "encoder" / "emb_layer_norm_after", c.hidden_size, c.layer_norm_eps),
        contact_head_(scope / "contact_head" / "regression", c.num_hidden_layers * c.num_attention_heads, 1,
                      c.new_weights()) {
    if (!c.rotary)
      position_embeddings_.emplace(scope / "embeddings" / "position_embeddings", c.max_position_embeddings,
                                   c.hidden_size, c.initializer_range, *c.pad_token_id);
    if (c.emb_layer_norm_before)
      layer_norm_.emplace(scope / "embeddings" / "layer_norm", c.hidden_size, c.layer_norm_eps);
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c);
    if (c.rotary) read_frequencies(scope);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const Tensor counted = inputs.find("attention_mask");
    if (counted.defined() && counted.rank() != 2)
      fail("attention_mask: expected [batch, length], found {}", to_string(counted.shape()));
    const EncoderInputs in = c_.rotary ? encoder_inputs(inputs, std::numeric_limits<int64_t>::max())
                                       : encoder_inputs(inputs, c_.max_position_embeddings, c_.pad_token_id);
    // Embeddings that are given take the place of all that is made of tokens, as in Transformers.
    const Tensor x = in.inputs_embeds.defined() ? in.inputs_embeds : embedded(in, counted, context);
    std::optional<RotaryAngles> angles;
    if (c_.rotary) angles = angles_of(in.position_ids);
    const auto call = [&](const EsmLayer& layer, const Tensor& y) { return layer(y, angles, in.mask, context); };
    const DecoderOutput output = through_decoder(layers_, x, context, emb_layer_norm_after_, call);
    return {output.last_hidden_state, output.hidden_states};
  }
  const Embedding& word_embeddings() const { return word_embeddings_; }

 private:
  Tensor embedded(const EncoderInputs& in, const Tensor& counted, ForwardContext& context) const {
    Tensor x = word_embeddings_(in.input_ids, context);
    if (c_.token_dropout) {
      const Tensor masked =
          equal(in.input_ids, full(in.input_ids.shape(), static_cast<double>(c_.mask_token_id), in.input_ids.dtype()));
      x = select(broadcast_to(unsqueeze(masked, 2), x.shape()), full(x.shape(), 0, x.dtype()), x);
      const Tensor number = reduce_sum(cast(masked, DType::kFloat32), {1}, true);  // [B, 1]
      const Tensor tokens = counted.defined() ? reduce_sum(cast(counted, DType::kFloat32), {1}, true)
                                              : full(number.shape(), static_cast<double>(in.length));
      const Tensor left = full(number.shape(), 1) - number / tokens;
      x = cast(cast(x * (1 - kMaskedInTraining), DType::kFloat32) / unsqueeze(left, 2), x.dtype());
    }
    if (position_embeddings_) x = x + (*position_embeddings_)(in.position_ids, context);
    if (layer_norm_) x = (*layer_norm_)(x, context);
    return counted.defined() ? x * unsqueeze(cast(counted, x.dtype()), 2) : x;
  }

  // Checkpoints hold the frequencies, as they were rounded when the model was trained: once, or in older ones in each
  // layer.
  void read_frequencies(const Scope& scope) {
    const int64_t d = c_.head_size();
    if (d > 1 << 20) fail("config.json: heads of {} numbers are wider than this takes", d);
    std::vector<float> computed;
    for (int64_t i = 0; i < d; i += 2)
      computed.push_back(1.0F /
                         std::pow(static_cast<float>(c_.rope_theta), static_cast<float>(i) / static_cast<float>(d)));
    const Type type{DType::kFloat32, {d / 2}};
    const auto read = [&](const Scope& place) {
      if (!place.holds("inv_freq")) return;
      const auto stored = place.buffer("inv_freq", type, Initial::given(computed));
      if (!frequencies_) frequencies_ = stored;
    };
    read(scope / "rotary_embeddings");
    // Transformers 5 writes them under the pattern of the older names itself.
    read(scope / "encoder" / "layer" / "*" / "attention" / "self" / "rotary_embeddings");
    for (int64_t i = 0; i < c_.num_hidden_layers; ++i)
      read(scope / "encoder" / "layer" / i / "attention" / "self" / "rotary_embeddings");
    if (!frequencies_)
      frequencies_ = std::make_shared<Parameter>(
          Parameter{scope.path() + ".rotary_embeddings.inv_freq", Tensor::from(computed, {d / 2})});
  }

  RotaryAngles angles_of(const Tensor& position_ids) const {
    const Tensor places =
        reshape(cast(position_ids, DType::kFloat32), {position_ids.dim(0), position_ids.dim(1), 1, 1});
    const Tensor angles = places * reshape(cast(frequencies_->value, DType::kFloat32), {1, 1, 1, c_.head_size() / 2});
    return {cos(angles), sin(angles)};
  }

  EsmConfig c_;
  Embedding word_embeddings_;
  std::optional<Embedding> position_embeddings_;
  std::optional<LayerNorm> layer_norm_;
  std::vector<EsmLayer> layers_;
  LayerNorm emb_layer_norm_after_;
  Linear contact_head_;  // of the weights of attention, which are no output here; kept as it is
  std::shared_ptr<Parameter> frequencies_;
};

class EsmModel : public EncoderModel<EsmBody> {
 public:
  EsmModel(const Config& config, const Scope& scope)
      : EncoderModel<EsmBody>(config, scope, ""),
        dense_(scope / "pooler" / "dense", config_.hidden_size, config_.hidden_size, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}, {"pooler_output", tanh(dense_(first_token(hidden), context))}};
    });
  }

 private:
  Linear dense_;
};

class EsmPredictions {
 public:
  EsmPredictions(const Scope& scope, const EsmConfig& c, const Embedding& words)
      : dense_(scope / "lm_head" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        norm_(scope / "lm_head" / "layer_norm", c.hidden_size, c.layer_norm_eps),
        decoder_(scope / "lm_head", "bias", "decoder.weight", words, c.tie_word_embeddings, c.hidden_size, c.vocab_size,
                 c.initializer_range) {}
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return decoder_(norm_(gelu(dense_(hidden, context)), context), context);
  }

 private:
  Linear dense_;
  LayerNorm norm_;
  TiedDecoder decoder_;
};

}  // namespace

static Family esm_family() {
  return {.model_type = "esm",
          .base_prefix = "esm",
          .architectures = {{"EsmModel",
                             body_head({"feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                             make_model<EsmModel>},
                            {"EsmForMaskedLM", masked_lm_head({"lm_head"}, {"lm_head.decoder"}),
                             make_model<EncoderForMaskedLM<EsmBody, EsmPredictions>>},
                            {"EsmForSequenceClassification", sequence_classification_head({"classifier"}),
                             make_model<RobertaSequenceClassifier<EsmBody>>},
                            {"EsmForTokenClassification", token_classification_head({"classifier"}),
                             make_model<EncoderForTokenClassification<EsmBody>>}},
          .inputs = placed_text_inputs(),
          .processors = {.tokenizer = "Esm",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}, /*behind_padding=*/true},
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

const RegisterFamilies kEsmFamily{esm_family};

}  // namespace transom
