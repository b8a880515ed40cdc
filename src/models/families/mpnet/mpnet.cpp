// SPDX-License-Identifier: Apache-2.0
// MPNet (Song et al., 2020): BERT without token types, with a bias on attention scores that depends on the distance of
// two tokens. B batch, T time, D hidden, H heads.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/families/roberta/roberta_heads.h"
#include "models/family.h"
#include "models/shared/relative_buckets.h"

namespace transom {
namespace {

constexpr int64_t kPadding = 1;  // whatever pad_token_id says
constexpr int64_t kBuckets = 32, kMaxDistance = 128;

struct MPNetConfig : BertConfig {
  explicit MPNetConfig(const Config& config)
      : BertConfig(with_defaults(config, R"({"vocab_size": 30527})")),
        relative_attention_num_buckets(config.get_int("relative_attention_num_buckets", kBuckets)) {
    classifier_dropout = hidden_dropout_prob;
    if (relative_attention_num_buckets < kBuckets)
      fail("config.json: relative_attention_num_buckets: expected {} or more, found {}", kBuckets,
           relative_attention_num_buckets);
  }
  int64_t relative_attention_num_buckets;
};

class MPNetLayer {
 public:
  MPNetLayer(const Scope& scope, const MPNetConfig& c)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        activation_(c.hidden_act),
        q_(scope / "attention" / "attn" / "q", c.hidden_size, c.hidden_size, c.new_weights()),
        k_(scope / "attention" / "attn" / "k", c.hidden_size, c.hidden_size, c.new_weights()),
        v_(scope / "attention" / "attn" / "v", c.hidden_size, c.hidden_size, c.new_weights()),
        o_(scope / "attention" / "attn" / "o", c.hidden_size, c.hidden_size, c.new_weights()),
        attention_norm_(scope / "attention" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        intermediate_(scope / "intermediate" / "dense", c.hidden_size, c.intermediate_size, c.new_weights()),
        output_(scope / "output" / "dense", c.intermediate_size, c.hidden_size, c.new_weights()),
        output_norm_(scope / "output" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        attention_dropout_(c.attention_probs_dropout_prob),
        dropout_(c.hidden_dropout_prob) {}

  Tensor operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {  // [B, T, D] -> [B, T, D]
    Tensor attended;
    {
      const ModuleScope module(path_ + ".attention.attn");
      attended = multi_head_attention(q_(x, context), k_(x, context), v_(x, context), heads_, mask, attention_dropout_,
                                      context);
    }
    const Tensor h = attention_norm_(dropout_(o_(attended, context), context) + x, context);
    return output_norm_(dropout_(output_(activation(activation_, intermediate_(h, context)), context), context) + h,
                        context);
  }

 private:
  std::string path_;
  int64_t heads_;
  std::string activation_;
  Linear q_, k_, v_, o_;
  LayerNorm attention_norm_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  Dropout attention_dropout_, dropout_;
};

class MPNetBody {
 public:
  using Settings = MPNetConfig;
  static constexpr const char* kPrefix = "mpnet";
  // Its biases are of all pairs of places in a row.
  static constexpr bool kTextsInRows = false;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids", "attention_mask", "position_ids", "inputs_embeds", target};
  }

  MPNetBody(const Scope& scope, const MPNetConfig& c)
      : word_embeddings_(scope / "embeddings" / "word_embeddings", c.vocab_size, c.hidden_size, c.initializer_range,
                         kPadding),
        max_position_embeddings_(c.max_position_embeddings),
        position_embeddings_(scope / "embeddings" / "position_embeddings", c.max_position_embeddings, c.hidden_size,
                             c.initializer_range, kPadding),
        layer_norm_(scope / "embeddings" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        dropout_(c.hidden_dropout_prob),
        relative_attention_bias_(scope / "encoder" / "relative_attention_bias", c.relative_attention_num_buckets,
                                 c.num_attention_heads, c.initializer_range) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const EncoderInputs in = encoder_inputs(inputs, max_position_embeddings_, kPadding);
    const Tensor words = in.input_ids.defined() ? word_embeddings_(in.input_ids, context) : in.inputs_embeds;
    const Tensor x = dropout_(layer_norm_(words + position_embeddings_(in.position_ids, context), context), context);
    const Tensor bias = position_bias(in.length, context);
    return through_layers(layers_, x, in.mask.defined() ? bias + in.mask : bias, context);
  }

  const Embedding& word_embeddings() const { return word_embeddings_; }

 private:
  Tensor position_bias(int64_t T, ForwardContext& context) const {  // [1, H, T, T]
    const Tensor distance = iota({1, T, T}, 2) - iota({1, T, T}, 1);
    return bucketed_bias(relative_attention_bias_, {.count = kBuckets, .farthest = kMaxDistance}, distance, context);
  }

  Embedding word_embeddings_;
  int64_t max_position_embeddings_;
  Embedding position_embeddings_;
  LayerNorm layer_norm_;
  Dropout dropout_;
  Embedding relative_attention_bias_;
  std::vector<MPNetLayer> layers_;
};

class MPNetModel : public EncoderModel<MPNetBody> {
 public:
  MPNetModel(const Config& config, const Scope& scope)
      : EncoderModel(config, scope, ""), pooler_(scope / "pooler", config_) {}

 protected:
  std::vector<std::string> input_names() const override {
    return {"input_ids", "attention_mask", "position_ids", "inputs_embeds"};
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}, {"pooler_output", pooler_(hidden, context)}};
    });
  }

 private:
  BertPooler pooler_;
};

}  // namespace

static Family mpnet_family() {
  return {.model_type = "mpnet",
          .base_prefix = "mpnet",
          .architectures = {{"MPNetModel",
                             body_head({"feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                             make_model<MPNetModel>},
                            {"MPNetForSequenceClassification", sequence_classification_head({"classifier"}),
                             make_model<RobertaSequenceClassifier<MPNetBody>>},
                            {"MPNetForTokenClassification", token_classification_head({"classifier"}),
                             make_model<EncoderForTokenClassification<MPNetBody>>},
                            {"MPNetForQuestionAnswering", question_answering_head({"qa_outputs"}),
                             make_model<EncoderForQuestionAnswering<MPNetBody>>},
                            {"MPNetForMaskedLM", masked_lm_head({"lm_head"}, {"lm_head.decoder"}),
                             make_model<EncoderForMaskedLM<MPNetBody, RobertaLMHead>>},
                            {"MPNetForMultipleChoice", multiple_choice_head({"mpnet.pooler", "classifier"}),
                             make_model<RobertaMultipleChoice<MPNetBody>>}},
          .inputs = placed_text_inputs(),
          .processors = {.tokenizer = "MPNet",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}, /*behind_padding=*/true},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = {LatePart{"encoder", "relative_attention_bias"}},
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = KerasNames{.body = "mpnet"}, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kMpnetFamily{mpnet_family};

}  // namespace transom
