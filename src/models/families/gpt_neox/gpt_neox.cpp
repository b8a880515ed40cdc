// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX and Pythia (Black et al., 2022): attention and feed-forward side by side, part of each head rotary.
// B batch, T time, D hidden, H heads, d head size.
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/shared/decoder.h"
#include "models/shared/rope_decoder_gguf.h"
#include "models/shared/rotary/rotary_config.h"

namespace transom {
namespace {

struct GptNeoXConfig {
  explicit GptNeoXConfig(const Config& config);
  int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
  std::string hidden_act;
  double attention_dropout, hidden_dropout, initializer_range, layer_norm_eps;
  bool use_parallel_residual, attention_bias, tie_word_embeddings;
  std::optional<int64_t> pad_token_id;
  RotaryOptions rotary;
};

GptNeoXConfig::GptNeoXConfig(const Config& config)
    : vocab_size(config.get_int("vocab_size", 50432)),
      hidden_size(config.get_int("hidden_size", 6144)),
      num_hidden_layers(config.get_int("num_hidden_layers", 44)),
      num_attention_heads(config.get_int("num_attention_heads", 64)),
      intermediate_size(config.get_int("intermediate_size", 24576)),
      hidden_act(config.get_string("hidden_act", "gelu")),
      attention_dropout(config.get_float("attention_dropout", 0)),
      hidden_dropout(config.get_float("hidden_dropout", 0)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-5)),
      use_parallel_residual(config.get_bool("use_parallel_residual", true)),
      attention_bias(config.get_bool("attention_bias", true)),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", false)) {
  if (config.has("pad_token_id")) pad_token_id = config.get_int("pad_token_id");
  if (num_attention_heads <= 0 || hidden_size % num_attention_heads != 0)
    fail("config.json: hidden_size {} is not divisible by num_attention_heads {}", hidden_size, num_attention_heads);
  Config rope = config;  // which is asked for by names of its own: rotary_emb_base and rotary_pct
  set_field(rope, "rope_theta", Json());
  set_field(rope, "partial_rotary_factor", Json());
  rotary = rotary_options(rope, {.head_width = hidden_size / num_attention_heads,
                                 .theta = config.get_float("rotary_emb_base", 10000),
                                 .turning_part = config.get_float("rotary_pct", 0.25),
                                 .max_positions = config.get_int("max_position_embeddings", 2048)});
}

// Queries, keys and values of one head lie side by side in the fused layer.
class GptNeoXAttention {
 public:
  GptNeoXAttention(const Scope& scope, const GptNeoXConfig& c, int64_t layer)
      : layer_(layer),
        heads_(c.num_attention_heads),
        query_key_value_(scope / "query_key_value", c.hidden_size, 3 * c.hidden_size,
                         {.bias = c.attention_bias, .deviation = c.initializer_range}),
        dense_(scope / "dense", c.hidden_size, c.hidden_size,
               {.bias = c.attention_bias, .deviation = c.initializer_range}),
        dropout_(c.attention_dropout) {}

  Tensor operator()(const Tensor& x, const DecoderInputs& in, const RotaryAngles& angles,
                    ForwardContext& context) const {
    const int64_t B = x.dim(0), T = x.dim(1), d = x.dim(2) / heads_;
    const Tensor qkv = reshape(query_key_value_(x, context), {B, T, heads_, 3 * d});
    const Tensor q = rotate(slice(qkv, 3, 0, d), angles), k = rotate(slice(qkv, 3, d, 2 * d), angles);
    const AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(d)), .causal = in.causal};
    return dense_(cached_attention(layer_, q, k, slice(qkv, 3, 2 * d, 3 * d), in.bias, options, dropout_, context),
                  context);
  }

 private:
  int64_t layer_, heads_;
  Linear query_key_value_, dense_;
  Dropout dropout_;
};

class GptNeoXLayer {
 public:
  GptNeoXLayer(const Scope& scope, const GptNeoXConfig& c, int64_t layer)
      : path_(scope.path()),
        parallel_(c.use_parallel_residual),
        activation_(c.hidden_act),
        input_layernorm_(scope / "input_layernorm", c.hidden_size, c.layer_norm_eps),
        post_attention_layernorm_(scope / "post_attention_layernorm", c.hidden_size, c.layer_norm_eps),
        attention_(scope / "attention", c, layer),
        dense_h_to_4h_(scope / "mlp" / "dense_h_to_4h", c.hidden_size, c.intermediate_size,
                       {.deviation = c.initializer_range}),
        dense_4h_to_h_(scope / "mlp" / "dense_4h_to_h", c.intermediate_size, c.hidden_size,
                       {.deviation = c.initializer_range}),
        dropout_(c.hidden_dropout) {}

  Tensor operator()(const Tensor& x, const DecoderInputs& in, const RotaryAngles& angles,
                    ForwardContext& context) const {
    const ModuleScope module(path_);
    const Tensor attended = dropout_(attention_(input_layernorm_(x, context), in, angles, context), context);
    if (parallel_) return dropout_(mlp(post_attention_layernorm_(x, context), context), context) + attended + x;
    const Tensor h = attended + x;
    return dropout_(mlp(post_attention_layernorm_(h, context), context), context) + h;
  }

 private:
  Tensor mlp(const Tensor& x, ForwardContext& context) const {
    return dense_4h_to_h_(activation(activation_, dense_h_to_4h_(x, context)), context);
  }

  std::string path_;
  bool parallel_;
  std::string activation_;
  LayerNorm input_layernorm_, post_attention_layernorm_;
  GptNeoXAttention attention_;
  Linear dense_h_to_4h_, dense_4h_to_h_;
  Dropout dropout_;
};

class GptNeoX : public Decoder {
 public:
  GptNeoX(const Config& config, const Scope& scope)
      : c_(config),
        embed_in_(scope / "embed_in", c_.vocab_size, c_.hidden_size, c_.initializer_range),
        emb_dropout_(c_.hidden_dropout),
        final_layer_norm_(scope / "final_layer_norm", c_.hidden_size, c_.layer_norm_eps),
        rotary_emb_(c_.rotary) {
    for (int64_t i = 0; i < c_.num_hidden_layers; ++i) layers_.emplace_back(scope / "layers" / i, c_, i);
  }

  DecoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const override {
    const DecoderInputs in = decoder_inputs(inputs, context, Positions::kInOrder);
    const Tensor x = in.input_ids.defined() ? embed_in_(in.input_ids, context) : in.inputs_embeds;
    const RotaryAngles angles = rotary_emb_(in.position_ids);
    return through_decoder(layers_, emb_dropout_(x, context), context, final_layer_norm_,
                           [&](const GptNeoXLayer& layer, const Tensor& y) { return layer(y, in, angles, context); });
  }

  DecoderTraits traits() const override {
    return {.vocab_size = c_.vocab_size,
            .width = c_.hidden_size,
            .tie_word_embeddings = c_.tie_word_embeddings,
            .initializer_range = c_.initializer_range,
            .head = "embed_out",
            .token_head = "classifier",
            .pad_token_id = c_.pad_token_id};
  }
  const Embedding& word_embeddings() const override { return embed_in_; }

 private:
  GptNeoXConfig c_;
  Embedding embed_in_;
  Dropout emb_dropout_;
  std::vector<GptNeoXLayer> layers_;
  LayerNorm final_layer_norm_;
  RotaryEmbedding rotary_emb_;
};

constexpr char kGptNeoxPrefix[] = "gpt_neox";
std::unique_ptr<Decoder> make_gpt_neox(const Config& config, const Scope& scope) {
  return std::make_unique<GptNeoX>(config, scope);
}

GgufFamily gpt_neox_gguf() {
  GgufFamily gguf = gguf_decoder("gptneox", "GPTNeoXForCausalLM");
  gguf.activations = {"gelu"};
  gguf.names = {.whole = {{"token_embd", "gpt_neox.embed_in"},
                          {"output_norm", "gpt_neox.final_layer_norm"},
                          {"output", "embed_out"}},
                .stacks = {{"blk.",
                            "gpt_neox.layers.",
                            {{"attn_norm", "input_layernorm"},
                             {"attn_qkv", "attention.query_key_value", GgufChange::kHeadsTogether},
                             {"attn_output", "attention.dense"},
                             {"ffn_norm", "post_attention_layernorm"},
                             {"ffn_up", "mlp.dense_h_to_4h"},
                             {"ffn_down", "mlp.dense_4h_to_h"}}}}};
  gguf_key(gguf.keys, "attention.layer_norm_rms_epsilon") = {.key = "attention.layer_norm_epsilon",
                                                             .field = "layer_norm_eps",
                                                             .kind = GgufKey::Kind::kNumber,
                                                             .written = {GgufUsual::Is::kNumber, 1e-5}};
  gguf_key(gguf.keys, "attention.head_count_kv").read = {GgufUsual::Is::kNotRead};
  for (const char* key : {"attention.key_length", "attention.value_length"})
    gguf_key(gguf.keys, key).field.clear(), gguf_key(gguf.keys, key).read = {GgufUsual::Is::kNotRead};
  gguf.keys.push_back({.key = "use_parallel_residual",
                       .field = "use_parallel_residual",
                       .kind = GgufKey::Kind::kTruth,
                       .written = {GgufUsual::Is::kNumber, 1},
                       .read = {GgufUsual::Is::kNumber, 1}});
  gguf.rotary =
      GgufRotary{.turns_part = true, .part = 0.25, .theta_field = "rotary_emb_base", .part_field = "rotary_pct"};
  gguf.stands_for = R"({"hidden_act": "gelu"})";
  gguf.biases = {{"attention_bias", "attn_qkv"}};
  return gguf;
}

}  // namespace

static Family gpt_neox_family() {
  return {.model_type = "gpt_neox",
          .base_prefix = kGptNeoxPrefix,
          .architectures = answering_decoder_architectures<make_gpt_neox, kGptNeoxPrefix, kGptNeoxPrefix>(
              "GPTNeoX", {.vocabulary = {"embed_out", "lm_head"}, .tokens = "classifier"}),
          .inputs = placed_text_inputs(FamilyInput::Export::kStates),
          .processors = {.tokenizer = "GPTNeoX",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = {"query_key_value"},
                      .late_parts = none,
                      .awq_activation = ScaledActivation{"dense_h_to_4h", "act"},
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none,
                      .adapter_targets = {.ia3 = {"query_key_value", "dense_4h_to_h"},
                                          .ia3_feedforward = {"dense_4h_to_h"},
                                          .norms = {}}},
          .foreign = {.gguf = gpt_neox_gguf(), .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kGptNeoxFamily{gpt_neox_family};

}  // namespace transom
