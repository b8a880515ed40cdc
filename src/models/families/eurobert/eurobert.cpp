// SPDX-License-Identifier: Apache-2.0
// EuroBERT (Boizard et al., 2025): LLaMA's layers as an encoder, in which all tokens see all. B batch, T time, D
// hidden, V vocabulary.
#include "base/error.h"
#include "models/family.h"
#include "models/nn/weight.h"
#include "models/shared/encoder_model.h"
#include "models/shared/rope_decoder.h"

namespace transom {
namespace {

constexpr const char* kEuroBertDefaults = R"({"vocab_size": 128256, "hidden_size": 768, "intermediate_size": 3072,
    "num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
    "pad_token_id": 128001})";

struct EuroBertConfig {
  explicit EuroBertConfig(const Config& given) : EuroBertConfig(with_defaults(given, kEuroBertDefaults), 0) {}

  RopeDecoderConfig layers;
  int64_t hidden_size, num_labels;
  std::string classifier_pooling, problem_type;
  double classifier_dropout = 0;
  Linear::Options new_weights() const { return {.deviation = layers.initializer_range}; }

 private:
  EuroBertConfig(const Config& config, int)
      : layers(config),
        hidden_size(layers.hidden_size),
        num_labels(number_of_labels(config)),
        classifier_pooling(config.get_string("classifier_pooling", "late")),
        problem_type(config.get_string("problem_type", "")) {
    layers.bidirectional = true;
    layers.query_key_value_bias = layers.output_bias = config.get_bool("attention_bias", false);
    layers.mlp_bias = config.get_bool("mlp_bias", false);
    layers.rotary = {rotary_options(config, layers.rotary_defaults())};
    if (classifier_pooling != "late" && classifier_pooling != "mean" && classifier_pooling != "bos")
      fail("config.json: classifier_pooling: expected late, mean or bos, found {}", quoted(classifier_pooling));
  }
};

class EuroBertBody {
 public:
  using Settings = EuroBertConfig;
  static constexpr const char* kPrefix = "model";
  static constexpr bool kTextsInRows = true;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids", "attention_mask", "position_ids", "inputs_embeds", target};
  }

  EuroBertBody(const Scope& scope, const EuroBertConfig& c) : layers_(make_rope_decoder(c.layers, scope)) {}
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    DecoderOutput output = (*layers_)(inputs, context);
    return {output.last_hidden_state, std::move(output.hidden_states)};
  }
  const Embedding& word_embeddings() const { return layers_->word_embeddings(); }

 private:
  std::unique_ptr<Decoder> layers_;
};

using EuroBertWithHead = EncoderModel<EuroBertBody>;

class EuroBertModel : public EuroBertWithHead {
 public:
  EuroBertModel(const Config& config, const Scope& scope) : EuroBertWithHead(config, scope, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}};
    });
  }
};

class EuroBertPredictions {
 public:
  EuroBertPredictions(const Scope& scope, const EuroBertConfig& c, const Embedding& words)
      : weight_(c.layers.tie_word_embeddings ? words.weight()
                                             : scope.parameter("lm_head.weight", {c.layers.vocab_size, c.hidden_size},
                                                               Initial::normal(c.layers.initializer_range))) {
    if (c.layers.tie_word_embeddings) scope.tied("lm_head.weight", weight_);
    if (c.layers.mlp_bias) bias_ = scope.parameter("lm_head.bias", {c.layers.vocab_size}, Initial::zeros());
  }
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return linear(hidden, *weight_, bias_ ? bias_->value : Tensor(), context);
  }

 private:
  std::shared_ptr<Parameter> weight_, bias_;
};

class EuroBertForSequenceClassification : public EuroBertWithHead {
 public:
  EuroBertForSequenceClassification(const Config& config, const Scope& scope)
      : EuroBertWithHead(config, scope),
        dense_(scope / "dense", config_.hidden_size, config_.hidden_size, config_.new_weights()),
        classifier_(scope / "classifier", config_.hidden_size, config_.num_labels, config_.new_weights()) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      const Tensor mask = inputs.find("attention_mask");
      const std::string& pooling = config_.classifier_pooling;
      const auto classified = [&](const Tensor& x) { return classifier_(gelu(dense_(x, context)), context); };
      const Tensor logits = pooling == "late"   ? counted_mean(classified(hidden), mask)
                            : pooling == "mean" ? classified(counted_mean(hidden, mask))
                                                : classified(first_token(hidden));
      return sequence_classification_outputs(logits, inputs, config_.problem_type, context);
    });
  }

 private:
  // Over the tokens that count: [B, T, N] -> [B, N].
  static Tensor counted_mean(const Tensor& x, const Tensor& mask) {
    if (!mask.defined()) return mean(x, {1});
    const Tensor weights = unsqueeze(cast(mask, x.dtype()), 2);
    return reduce_sum(x * weights, {1}) / reduce_sum(weights, {1});
  }

  Linear dense_, classifier_;
};

}  // namespace

static Family eurobert_family() {
  return {.model_type = "eurobert",
          .base_prefix = "model",
          .architectures = {{"EuroBertModel", body_head({"feature-extraction"}), make_model<EuroBertModel>},
                            {"EuroBertForMaskedLM", masked_lm_head({"lm_head"}, {"lm_head"}),
                             make_model<EncoderForMaskedLM<EuroBertBody, EuroBertPredictions>>},
                            {"EuroBertForSequenceClassification", sequence_classification_head({"dense", "classifier"}),
                             make_model<EuroBertForSequenceClassification>},
                            {"EuroBertForTokenClassification", token_classification_head({"classifier"}),
                             make_model<EncoderForTokenClassification<EuroBertBody>>}},
          .inputs = placed_text_inputs(),
          .processors = {.tokenizer = none,
                         .image_processor = none,
                         .positions = PositionLimit{.fields = {"max_position_embeddings"}, .has_table = false},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = {"q_proj", "v_proj"},
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kEuroBertFamily{eurobert_family};

}  // namespace transom
