// SPDX-License-Identifier: Apache-2.0
// Longformer (Beltagy et al., 2020): RoBERTa whose tokens see their neighbourhood, and some of them the whole text, as
// the whole text sees them. B batch, T time, D hidden, H heads, d head size.
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/families/roberta/roberta_heads.h"
#include "models/family.h"
#include "models/shared/decoder.h"

namespace transom {
namespace {

struct LongformerConfig : BertConfig {
  explicit LongformerConfig(const Config& config);
  int64_t sep_token_id;
  std::vector<int64_t> reach;  // of each layer: how far from its place a token sees
};

LongformerConfig::LongformerConfig(const Config& config)
    : BertConfig(with_defaults(config, R"({"pad_token_id": 1})")), sep_token_id(config.get_int("sep_token_id", 2)) {
  classifier_dropout = hidden_dropout_prob;
  refuse_unless(config, "is_decoder", "false");
  refuse_unless(config, "attention_mode", "longformer");
  refuse_unless(config, "autoregressive", "false");
  constexpr int64_t kMostLayers = 1 << 16;
  if (num_hidden_layers < 0 || num_hidden_layers > kMostLayers)
    fail("config.json: num_hidden_layers: expected 0 to {}, found {}", kMostLayers, num_hidden_layers);
  const Json& given = json_of(config);
  const bool one = !given.contains("attention_window") || given["attention_window"].is_number();
  std::vector<int64_t> windows;
  if (one) windows.assign(static_cast<size_t>(num_hidden_layers), config.get_int("attention_window", 512));
  else windows = config.get_ints("attention_window");
  if (static_cast<int64_t>(windows.size()) != num_hidden_layers)
    fail("config.json: attention_window: expected a number, or one for each of {} layers, found {}", num_hidden_layers,
         windows.size());
  for (const int64_t window : windows) {
    if (window < 2 || window % 2 != 0)
      fail("config.json: attention_window: expected even numbers above 0, found {}", window);
    reach.push_back(window / 2);
  }
}

// What all layers know of a text.
struct LongformerView {
  Tensor counted;  // f32 [B, T]: 1 for tokens that count; empty: all do
  Tensor global;   // f32 [B, T]: 1 for tokens that see all and are seen by all; empty: none
};

class LongformerAttention {
 public:
  LongformerAttention(const Scope& scope, const LongformerConfig& c, int64_t layer)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        reach_(c.reach[static_cast<size_t>(layer)]),
        query_(scope / "query", c.hidden_size, c.hidden_size, c.new_weights()),
        key_(scope / "key", c.hidden_size, c.hidden_size, c.new_weights()),
        value_(scope / "value", c.hidden_size, c.hidden_size, c.new_weights()),
        query_global_(scope / "query_global", c.hidden_size, c.hidden_size, c.new_weights()),
        key_global_(scope / "key_global", c.hidden_size, c.hidden_size, c.new_weights()),
        value_global_(scope / "value_global", c.hidden_size, c.hidden_size, c.new_weights()),
        dropout_(c.attention_probs_dropout_prob) {}

  Tensor operator()(const Tensor& x, const LongformerView& view, ForwardContext& context) const {
    const ModuleScope module(path_);
    Tensor mixed = multi_head_attention(query_(x, context), key_(x, context), value_(x, context), heads_,
                                        seen(view, x.dim(1)), dropout_, context);
    // Padding gives nothing, as in Transformers: what stands there enters the loss of answers.
    if (view.counted.defined()) mixed = mixed * unsqueeze(cast(view.counted, mixed.dtype()), 2);
    if (!view.global.defined()) return mixed;
    // Tokens that see all have weights of their own for it.
    const Tensor whole =
        multi_head_attention(query_global_(x, context), key_global_(x, context), value_global_(x, context), heads_,
                             additive_mask(view.counted), dropout_, context);
    const Tensor chosen = unsqueeze(cast(view.global, DType::kBool), 2);
    return select(broadcast_to(chosen, mixed.shape()), cast(whole, mixed.dtype()), mixed);
  }

 private:
  // Keys near a query, and those that all see: additive, [B or 1, 1, T, T].
  Tensor seen(const LongformerView& view, int64_t T) const {
    const Tensor distance = abs(iota({T, T}, 0) - iota({T, T}, 1));
    Tensor keys =
        reshape(cast(less_equal(distance, full({T, T}, static_cast<double>(reach_), DType::kInt64)), DType::kFloat32),
                {1, 1, T, T});
    const auto of_keys = [&](const Tensor& x) { return unsqueeze(unsqueeze(x, 1), 1); };
    if (view.global.defined()) keys = keys + of_keys(view.global);
    if (view.counted.defined()) keys = keys * of_keys(view.counted);
    return additive_where(cast(keys, DType::kBool));
  }

  std::string path_;
  int64_t heads_, reach_;
  Linear query_, key_, value_, query_global_, key_global_, value_global_;
  Dropout dropout_;
};

class LongformerLayer {
 public:
  LongformerLayer(const Scope& scope, const LongformerConfig& c, int64_t layer)
      : activation_(c.hidden_act),
        self_(scope / "attention" / "self", c, layer),
        attention_output_(scope / "attention" / "output" / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        attention_norm_(scope / "attention" / "output" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        intermediate_(scope / "intermediate" / "dense", c.hidden_size, c.intermediate_size, c.new_weights()),
        output_(scope / "output" / "dense", c.intermediate_size, c.hidden_size, c.new_weights()),
        output_norm_(scope / "output" / "LayerNorm", c.hidden_size, c.layer_norm_eps),
        dropout_(c.hidden_dropout_prob) {}

  Tensor operator()(const Tensor& x, const LongformerView& view, ForwardContext& context) const {
    const Tensor attended = attention_output_(self_(x, view, context), context);
    const Tensor h = attention_norm_(dropout_(attended, context) + x, context);
    return output_norm_(dropout_(output_(activation(activation_, intermediate_(h, context)), context), context) + h,
                        context);
  }

 private:
  std::string activation_;
  LongformerAttention self_;
  Linear attention_output_;
  LayerNorm attention_norm_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  Dropout dropout_;
};

// Which tokens see all where global_attention_mask does not say.
enum class SeesAll { kNone, kFirst, kBeforeSeparator, kBehindSeparators };

template <SeesAll who>
class LongformerBody {
 public:
  using Settings = LongformerConfig;
  static constexpr const char* kPrefix = "longformer";
  static constexpr bool kTextsInRows = false;
  static std::vector<std::string> input_names(const std::string& target) {
    return {"input_ids", "attention_mask", "global_attention_mask", "token_type_ids", "position_ids", "inputs_embeds",
            target};
  }

  LongformerBody(const Scope& scope, const LongformerConfig& c) : c_(c), embeddings_(scope / "embeddings", c, true) {
    if (!c.pad_token_id) fail("config.json: pad_token_id: expected a number, behind which positions begin, found null");
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c, i);
  }

  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    const EncoderInputs in = encoder_inputs(inputs, c_.max_position_embeddings, c_.pad_token_id);
    const Tensor x = embeddings_(in.input_ids, in.inputs_embeds, in.token_type_ids, in.position_ids, context);
    const LongformerView view = view_of(inputs, in);
    const auto call = [&](const LongformerLayer& layer, const Tensor& y) { return layer(y, view, context); };
    const DecoderOutput output = through_decoder(
        layers_, x, context, [](const Tensor& y, ForwardContext&) { return y; }, call);
    return {output.last_hidden_state, output.hidden_states};
  }
  const Embedding& word_embeddings() const { return embeddings_.word_embeddings; }

 private:
  LongformerView view_of(const NamedTensors& inputs, const EncoderInputs& in) const {
    LongformerView view;
    for (const auto& [name, into] :
         {std::pair{"attention_mask", &view.counted}, std::pair{"global_attention_mask", &view.global}}) {
      const Tensor mask = inputs.find(name);
      if (!mask.defined()) continue;
      if (mask.rank() != 2) fail("{}: expected [batch, length], found {}", name, to_string(mask.shape()));
      *into = cast(mask, DType::kFloat32);
    }
    if (!view.global.defined()) view.global = by_default(in);
    if (view.global.defined() && view.counted.defined()) view.global = view.global * view.counted;
    return view;
  }

  // f32 [B, T], or empty.
  Tensor by_default(const EncoderInputs& in) const {
    const Tensor& given = in.input_ids.defined() ? in.input_ids : in.inputs_embeds;
    const Shape tokens{given.dim(0), given.dim(1)};
    const Tensor place = iota(tokens, 1);
    if (who == SeesAll::kFirst) return cast(equal(place, full(tokens, 0, DType::kInt64)), DType::kFloat32);
    if (who == SeesAll::kNone || !in.input_ids.defined()) return {};
    const Tensor separators =
        equal(in.input_ids, full(tokens, static_cast<double>(c_.sep_token_id), in.input_ids.dtype()));
    const Tensor first =
        broadcast_to(unsqueeze(arg_max(cast(separators, DType::kInt64), 1), 1), tokens);  // of each row
    const Tensor chosen = who == SeesAll::kBeforeSeparator ? less(place, first) : less(first + 1.0, place);
    return cast(chosen, DType::kFloat32);
  }

  LongformerConfig c_;
  BertEmbeddings embeddings_;
  std::vector<LongformerLayer> layers_;
};

using LocalBody = LongformerBody<SeesAll::kNone>;

class LongformerModel : public EncoderModel<LocalBody> {
 public:
  LongformerModel(const Config& config, const Scope& scope)
      : EncoderModel<LocalBody>(config, scope, ""), pooler_(scope / "pooler", config_) {}

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}, {"pooler_output", pooler_(hidden, context)}};
    });
  }

 private:
  BertPooler pooler_;
};

}  // namespace

static Family longformer_family() {
  return {.model_type = "longformer",
          .base_prefix = "longformer",
          .architectures = {{"LongformerModel",
                             body_head({"feature-extraction"}, {"last_hidden_state", "pooler_output"}, {"pooler"}),
                             make_model<LongformerModel>},
                            {"LongformerForMaskedLM", masked_lm_head({"lm_head"}, {"lm_head.decoder"}),
                             make_model<EncoderForMaskedLM<LocalBody, RobertaLMHead>>},
                            {"LongformerForSequenceClassification", sequence_classification_head({"classifier"}),
                             make_model<RobertaSequenceClassifier<LongformerBody<SeesAll::kFirst>>>},
                            {"LongformerForTokenClassification", token_classification_head({"classifier"}),
                             make_model<EncoderForTokenClassification<LocalBody>>},
                            {"LongformerForQuestionAnswering", question_answering_head({"qa_outputs"}),
                             make_model<EncoderForQuestionAnswering<LongformerBody<SeesAll::kBeforeSeparator>>>},
                            {"LongformerForMultipleChoice", multiple_choice_head({"longformer.pooler", "classifier"}),
                             make_model<RobertaMultipleChoice<LongformerBody<SeesAll::kBehindSeparators>>>}},
          .inputs = typed_text_inputs(2, FamilyInput::Export::kNever),
          .processors = {.tokenizer = "Longformer",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}, /*behind_padding=*/true},
                         .spaced_words = true,
                         .spans = false},
          .weights = {.lora_targets = {"query", "value"},
                      .late_parts = {LatePart{"embeddings", "position_embeddings"}},
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kLongformerFamily{longformer_family};

}  // namespace transom
