// SPDX-License-Identifier: Apache-2.0
// NomicBERT (Nussbaum et al., 2024) and the body of Jina's embeddings, version 3 (Sturua et al., 2024): BERT's layers
// with rotary positions in place of a table. The first has gated feed-forward layers and no biases in them. B batch, T
// time, D hidden, H heads, d head size.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "models/families/bert/bert_pooled.h"
#include "models/families/bert/bert_predictions.h"
#include "models/families/roberta/roberta_heads.h"
#include "models/family.h"
#include "models/nn/weight.h"
#include "models/shared/decoder.h"
#include "models/shared/rotary/rotary_config.h"

namespace transom {
namespace {

struct NomicVariant {
  const char* defaults;
  bool gated, bias;
  double theta;
};

constexpr NomicVariant kNomic{.defaults = R"({"vocab_size": 30528, "hidden_act": "silu", "hidden_dropout_prob": 0,
                                             "attention_probs_dropout_prob": 0, "max_position_embeddings": 2048})",
                              .gated = true,
                              .bias = false,
                              .theta = 1000};
constexpr NomicVariant kJina{.defaults = R"({"vocab_size": 250002, "hidden_size": 1024, "num_hidden_layers": 24,
                                            "num_attention_heads": 16, "intermediate_size": 4096, "pad_token_id": 1,
                                            "max_position_embeddings": 8194, "type_vocab_size": 1,
                                            "layer_norm_eps": 1e-5})",
                             .gated = false,
                             .bias = true,
                             .theta = 20000};

template <const NomicVariant& variant>
struct NomicConfig : BertConfig {
  explicit NomicConfig(const Config& config)
      : BertConfig(with_defaults(config, variant.defaults)),
        head_dim(config.get_int("head_dim", hidden_size / num_attention_heads)) {
    refuse_unless(config, "is_decoder", "false");
    if (head_dim < 2 || head_dim % 2 != 0)
      fail("config.json: head_dim: expected an even number above 0, found {}", head_dim);
    rotary = rotary_options(
        config,
        {.head_width = head_dim, .theta = variant.theta, .partial = false, .max_positions = max_position_embeddings});
  }
  int64_t head_dim;
  RotaryOptions rotary;
  Linear::Options inner() const { return {.bias = variant.bias, .deviation = initializer_range}; }
};

// What modules are called: as in Transformers, or as in the files of the models' authors, where one layer makes
// queries, keys and values.
struct NomicNames {
  std::string layers, norm, fused, output, attention_norm, mlp_norm, gate, up, down;
};

NomicNames nomic_names(bool gated, bool older) {
  if (!older)
    return {"layers",
            "embeddings.LayerNorm",
            "",
            "self_attn.o_proj",
            "post_attention_layernorm",
            "post_mlp_layernorm",
            "mlp.gate_proj",
            gated ? "mlp.up_proj" : "mlp.fc1",
            gated ? "mlp.down_proj" : "mlp.fc2"};
  const std::string attention = gated ? "attn." : "mixer.";
  return {"encoder.layers", "emb_ln", attention + "Wqkv", attention + "out_proj",
          "norm1",          "norm2",  "mlp.fc12",         gated ? "mlp.fc11" : "mlp.fc1",
          "mlp.fc2"};
}

template <const NomicVariant& variant>
class NomicLayer {
 public:
  using Settings = NomicConfig<variant>;
  NomicLayer(const Scope& scope, const Settings& c, const NomicNames& names)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        head_dim_(c.head_dim),
        activation_(c.hidden_act),
        attention_dropout_(c.attention_probs_dropout_prob),
        dropout_(c.hidden_dropout_prob) {
    const int64_t D = c.hidden_size, all = heads_ * head_dim_;
    const auto make = [&](std::optional<Linear>& layer, const std::string& name, int64_t from, int64_t to) {
      layer.emplace(scope / name, from, to, c.inner());
    };
    if (names.fused.empty()) {
      make(q_, "self_attn.q_proj", D, all);
      make(k_, "self_attn.k_proj", D, all);
      make(v_, "self_attn.v_proj", D, all);
    } else {
      make(fused_, names.fused, D, 3 * all);
    }
    make(o_, names.output, all, D);
    attention_norm_.emplace(scope / names.attention_norm, D, c.layer_norm_eps);
    if (variant.gated) make(gate_, names.gate, D, c.intermediate_size);
    make(up_, names.up, D, c.intermediate_size);
    make(down_, names.down, c.intermediate_size, D);
    mlp_norm_.emplace(scope / names.mlp_norm, D, c.layer_norm_eps);
  }

  Tensor operator()(const Tensor& x, const RotaryAngles& angles, const Tensor& mask, ForwardContext& context) const {
    const ModuleScope module(path_);
    const auto [q, k, v] = project(x, context);
    const Tensor mixed = attention(rotate(q, angles), rotate(k, angles), v, mask,
                                   {.scale = 1 / std::sqrt(static_cast<double>(head_dim_)), .causal = false},
                                   attention_dropout_, context);
    const Tensor h = (*attention_norm_)(x + dropout_((*o_)(mixed, context), context), context);
    const Tensor inner = gate_ ? activation(activation_, (*gate_)(h, context)) * (*up_)(h, context)
                               : activation(activation_, (*up_)(h, context));
    return (*mlp_norm_)(h + dropout_((*down_)(inner, context), context), context);
  }

 private:
  struct Projected {
    Tensor q, k, v;  // [B, T, H, d]
  };
  Projected project(const Tensor& x, ForwardContext& context) const {
    const int64_t B = x.dim(0), T = x.dim(1);
    if (fused_) {
      const Tensor all = reshape((*fused_)(x, context), {B, T, 3, heads_, head_dim_});
      const auto part = [&](int64_t i) { return squeeze(slice(all, 2, i, i + 1), 2); };
      return {part(0), part(1), part(2)};
    }
    const auto split = [&](const Linear& layer) { return reshape(layer(x, context), {B, T, heads_, head_dim_}); };
    return {split(*q_), split(*k_), split(*v_)};
  }

  std::string path_;
  int64_t heads_, head_dim_;
  std::string activation_;
  std::optional<Linear> q_, k_, v_, fused_, o_, gate_, up_, down_;
  std::optional<LayerNorm> attention_norm_, mlp_norm_;
  Dropout attention_dropout_, dropout_;
};

template <const NomicVariant& variant>
class NomicBody {
 public:
  using Settings = NomicConfig<variant>;
  static constexpr const char* kPrefix = variant.gated ? "nomic_bert" : "roberta";
  static constexpr bool kTextsInRows = true;
  static std::vector<std::string> input_names(const std::string& target) { return BertEncoder::input_names(target); }

  NomicBody(const Scope& scope, const Settings& c)
      : NomicBody(scope, c,
                  nomic_names(variant.gated, scope.holds(variant.gated ? "encoder.layers.0.attn.Wqkv.weight"
                                                                       : "encoder.layers.0.mixer.Wqkv.weight"))) {}
  NomicBody(const Scope& scope, const Settings& c, const NomicNames& names)
      : word_embeddings_(scope / "embeddings" / "word_embeddings", c.vocab_size, c.hidden_size, c.initializer_range,
                         c.pad_token_id.value_or(-1)),
        token_type_embeddings_(scope / "embeddings" / "token_type_embeddings", c.type_vocab_size, c.hidden_size,
                               c.initializer_range),
        norm_(scope / names.norm, c.hidden_size, c.layer_norm_eps),
        dropout_(c.hidden_dropout_prob),
        rotary_(c.rotary) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / names.layers / i, c, names);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const EncoderInputs in = encoder_inputs(inputs, std::numeric_limits<int64_t>::max(), std::nullopt, context.texts);
    const Tensor words = in.inputs_embeds.defined() ? in.inputs_embeds : word_embeddings_(in.input_ids, context);
    const Tensor types = in.token_type_ids.defined() ? in.token_type_ids : zeros({1, in.length}, DType::kInt64);
    const Tensor x = dropout_(norm_(words + token_type_embeddings_(types, context), context), context);
    const RotaryAngles angles = rotary_(in.position_ids);
    const auto call = [&](const NomicLayer<variant>& layer, const Tensor& y) {
      return layer(y, angles, in.mask, context);
    };
    const DecoderOutput output = through_decoder(
        layers_, x, context, [](const Tensor& y, ForwardContext&) { return y; }, call);
    return {output.last_hidden_state, output.hidden_states};
  }
  const Embedding& word_embeddings() const { return word_embeddings_; }

 private:
  Embedding word_embeddings_, token_type_embeddings_;
  LayerNorm norm_;
  Dropout dropout_;
  RotaryEmbedding rotary_;
  std::vector<NomicLayer<variant>> layers_;
};

using Nomic = NomicBody<kNomic>;
using Jina = NomicBody<kJina>;

class NomicBertModel : public EncoderModel<Nomic> {
 public:
  NomicBertModel(const Config& config, const Scope& scope) : EncoderModel<Nomic>(config, scope, "") {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}};
    });
  }
};

// BERT's, with another name of the norm.
struct NomicBertPredictions : BertPredictions {
  NomicBertPredictions(const Scope& scope, const BertConfig& c, const Embedding& words)
      : BertPredictions(scope, c, words, "layer_norm") {}
};

FamilyProcessors nomic_processors(const char* tokenizer) {
  return {.tokenizer = tokenizer,
          .image_processor = none,
          .positions = PositionLimit{.fields = {"max_position_embeddings"}, .has_table = false},
          .spaced_words = false,
          .spans = false};
}

FamilyWeights nomic_weights() {
  return {.lora_targets = {"Wqkv"},  // as files have it: nomic_names
          .late_parts = none,
          .awq_activation = none,
          .scaled_layers = none,
          .opens_no_codes = false,
          .multi_query = none};
}

}  // namespace

static Family nomic_bert_family() {
  return {.model_type = "nomic_bert",
          .base_prefix = "nomic_bert",
          .architectures = {{"NomicBertModel", body_head({"feature-extraction"}), make_model<NomicBertModel>},
                            {"NomicBertForMaskedLM", masked_lm_head({"cls"}, {"cls.predictions.decoder"}),
                             make_model<EncoderForMaskedLM<Nomic, NomicBertPredictions>>},
                            {"NomicBertForSequenceClassification",
                             sequence_classification_head({"nomic_bert.pooler", "classifier"}),
                             make_model<PooledSequenceClassifier<Nomic>>},
                            {"NomicBertForTokenClassification", token_classification_head({"classifier"}),
                             make_model<EncoderForTokenClassification<Nomic>>}},
          .inputs = typed_text_inputs(2),
          .processors = nomic_processors("Bert"),
          .weights = nomic_weights(),
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}
static Family jina_embeddings_v3_family() {
  return {.model_type = "jina_embeddings_v3",
          .base_prefix = "roberta",
          .architectures = {{"JinaEmbeddingsV3Model",
                             body_head({"feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                             make_model<PooledEncoder<Jina>>},
                            {"JinaEmbeddingsV3ForMaskedLM", masked_lm_head({"lm_head"}, {"lm_head.decoder"}),
                             make_model<EncoderForMaskedLM<Jina, RobertaLMHead>>},
                            {"JinaEmbeddingsV3ForSequenceClassification", sequence_classification_head({"classifier"}),
                             make_model<RobertaSequenceClassifier<Jina>>},
                            {"JinaEmbeddingsV3ForTokenClassification", token_classification_head({"classifier"}),
                             make_model<EncoderForTokenClassification<Jina>>},
                            {"JinaEmbeddingsV3ForQuestionAnswering", question_answering_head({"qa_outputs"}),
                             make_model<EncoderForQuestionAnswering<Jina>>}},
          .inputs = typed_text_inputs(1, FamilyInput::Export::kNever),
          .processors = nomic_processors("XLMRoberta"),
          .weights = nomic_weights(),
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kNomicFamilies{nomic_bert_family, jina_embeddings_v3_family};

}  // namespace transom
