// SPDX-License-Identifier: Apache-2.0
// GPTBigCode, the architecture of StarCoder (Li et al., 2023): GPT-2 whose heads share one head of keys and values.
// B batch, T time, D hidden, H heads, d head size.
#include <cmath>

#include "base/error.h"
#include "models/shared/decoder.h"

namespace transom {
namespace {

struct GptBigCodeConfig {
  explicit GptBigCodeConfig(const Config& config);
  int64_t vocab_size, n_positions, n_embd, n_layer, n_head, n_inner;
  std::string activation_function;
  double resid_pdrop, embd_pdrop, attn_pdrop, layer_norm_epsilon, initializer_range;
  bool scale_attn_weights, multi_query, tie_word_embeddings;
  std::optional<int64_t> pad_token_id;

  Linear::Options into_residual() const {
    return {.deviation = initializer_range / std::sqrt(2.0 * static_cast<double>(n_layer))};
  }
};

GptBigCodeConfig::GptBigCodeConfig(const Config& config)
    : vocab_size(config.get_int("vocab_size", 50257)),
      n_positions(config.get_int("n_positions", config.get_int("max_position_embeddings", 1024))),
      n_embd(config.get_int("n_embd", config.get_int("hidden_size", 768))),
      n_layer(config.get_int("n_layer", config.get_int("num_hidden_layers", 12))),
      n_head(config.get_int("n_head", config.get_int("num_attention_heads", 12))),
      n_inner(config.get_int("n_inner", 4 * n_embd)),
      activation_function(config.get_string("activation_function", "gelu_pytorch_tanh")),
      resid_pdrop(config.get_float("resid_pdrop", 0.1)),
      embd_pdrop(config.get_float("embd_pdrop", 0.1)),
      attn_pdrop(config.get_float("attn_pdrop", 0.1)),
      layer_norm_epsilon(config.get_float("layer_norm_epsilon", 1e-5)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      scale_attn_weights(config.get_bool("scale_attn_weights", true)),
      multi_query(config.get_bool("multi_query", true)),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", true)) {
  refuse_unless(config, "add_cross_attention", "false");
  if (config.has("pad_token_id")) pad_token_id = config.get_int("pad_token_id");
  if (n_head <= 0 || n_embd % n_head != 0) fail("config.json: n_embd {} is not divisible by n_head {}", n_embd, n_head);
  // attention_softmax_in_fp32 and its scale are how it is done here whatever they say.
}

class GptBigCodeBlock {
 public:
  GptBigCodeBlock(const Scope& scope, const GptBigCodeConfig& c, int64_t layer)
      : path_(scope.path()),
        layer_(layer),
        heads_(c.n_head),
        multi_query_(c.multi_query),
        scale_(c.scale_attn_weights ? 1 / std::sqrt(static_cast<double>(c.n_embd / c.n_head)) : 1),
        activation_(c.activation_function),
        ln_1_(scope / "ln_1", c.n_embd, c.layer_norm_epsilon),
        c_attn_(scope / "attn" / "c_attn", c.n_embd,
                c.multi_query ? c.n_embd + 2 * (c.n_embd / c.n_head) : 3 * c.n_embd,
                {.deviation = c.initializer_range}),
        attn_c_proj_(scope / "attn" / "c_proj", c.n_embd, c.n_embd, c.into_residual()),
        ln_2_(scope / "ln_2", c.n_embd, c.layer_norm_epsilon),
        c_fc_(scope / "mlp" / "c_fc", c.n_embd, c.n_inner, {.deviation = c.initializer_range}),
        c_proj_(scope / "mlp" / "c_proj", c.n_inner, c.n_embd, c.into_residual()),
        attn_dropout_(c.attn_pdrop),
        dropout_(c.resid_pdrop) {}

  Tensor operator()(const Tensor& x, const DecoderInputs& in, ForwardContext& context) const {
    const ModuleScope module(path_);
    const Tensor h = dropout_(attn_c_proj_(attention(ln_1_(x, context), in, context), context), context) + x;
    return dropout_(c_proj_(activation(activation_, c_fc_(ln_2_(h, context), context)), context), context) + h;
  }

 private:
  Tensor attention(const Tensor& x, const DecoderInputs& in, ForwardContext& context) const {
    const int64_t B = x.dim(0), T = x.dim(1), D = x.dim(2), d = D / heads_;
    const AttentionOptions options{.scale = scale_, .causal = in.causal};
    const Tensor qkv = c_attn_(x, context);
    if (multi_query_) {  // all queries, one key, one value
      const Tensor q = reshape(slice(qkv, 2, 0, D), {B, T, heads_, d}),
                   k = reshape(slice(qkv, 2, D, D + d), {B, T, 1, d}),
                   v = reshape(slice(qkv, 2, D + d, D + 2 * d), {B, T, 1, d});
      return cached_attention(layer_, q, k, v, in.bias, options, attn_dropout_, context);
    }
    // Those of one head side by side.
    const Tensor heads = reshape(qkv, {B, T, heads_, 3 * d});
    return cached_attention(layer_, slice(heads, 3, 0, d), slice(heads, 3, d, 2 * d), slice(heads, 3, 2 * d, 3 * d),
                            in.bias, options, attn_dropout_, context);
  }

  std::string path_;
  int64_t layer_, heads_;
  bool multi_query_;
  double scale_;
  std::string activation_;
  LayerNorm ln_1_;
  Linear c_attn_, attn_c_proj_;
  LayerNorm ln_2_;
  Linear c_fc_, c_proj_;
  Dropout attn_dropout_, dropout_;
};

class GptBigCode : public Decoder {
 public:
  GptBigCode(const Config& config, const Scope& scope)
      : c_(config),
        wte_(scope / "wte", c_.vocab_size, c_.n_embd, c_.initializer_range),
        wpe_(scope / "wpe", c_.n_positions, c_.n_embd, c_.initializer_range),
        drop_(c_.embd_pdrop),
        ln_f_(scope / "ln_f", c_.n_embd, c_.layer_norm_epsilon) {
    for (int64_t i = 0; i < c_.n_layer; ++i) h_.emplace_back(scope / "h" / i, c_, i);
  }

  DecoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const override {
    const DecoderInputs in = decoder_inputs(inputs, context, Positions::kInOrder, c_.n_positions);
    Tensor x =
        (in.input_ids.defined() ? wte_(in.input_ids, context) : in.inputs_embeds) + wpe_(in.position_ids, context);
    if (const Tensor types = inputs.find("token_type_ids"); types.defined()) x = x + wte_(types, context);
    return through_decoder(h_, drop_(x, context), context, ln_f_,
                           [&](const GptBigCodeBlock& block, const Tensor& y) { return block(y, in, context); });
  }

  DecoderTraits traits() const override {
    return {.vocab_size = c_.vocab_size,
            .width = c_.n_embd,
            .tie_word_embeddings = c_.tie_word_embeddings,
            .initializer_range = c_.initializer_range,
            .token_head = "classifier",
            .pad_token_id = c_.pad_token_id,
            .max_positions = c_.n_positions};
  }
  const Embedding& word_embeddings() const override { return wte_; }
  std::vector<std::string> input_names() const override {
    return {"input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds"};
  }

 private:
  GptBigCodeConfig c_;
  Embedding wte_, wpe_;
  Dropout drop_;
  std::vector<GptBigCodeBlock> h_;
  LayerNorm ln_f_;
};

constexpr char kGptBigcodePrefix[] = "transformer";
std::unique_ptr<Decoder> make_gpt_bigcode(const Config& config, const Scope& scope) {
  return std::make_unique<GptBigCode>(config, scope);
}

}  // namespace

static Family gpt_bigcode_family() {
  return {
      .model_type = "gpt_bigcode",
      .base_prefix = kGptBigcodePrefix,
      .architectures =
          decoder_architectures<make_gpt_bigcode, kGptBigcodePrefix>("GPTBigCode", {.tokens = "classifier"}),
      .inputs = decoder_inputs_with_types(),
      .processors = {.tokenizer = "GPT2",
                     .image_processor = none,
                     .positions = PositionLimit{{"n_positions", "max_position_embeddings"}},
                     .spaced_words = false,
                     .spans = false},
      .weights = {.lora_targets = {"c_attn"},
                  .late_parts = none,
                  .awq_activation = ScaledActivation{"c_fc", "act"},
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = MultiQuery{.flag = "multi_query", .otherwise = true},
                  .adapter_targets = {.ia3 = {"c_attn", "mlp.c_proj"}, .ia3_feedforward = {"mlp.c_proj"}, .norms = {}}},
      .foreign = {.gguf = none, .keras = none, .flax = none},
      .planning = {.fused_attention = false}};
}

const RegisterFamilies kGptBigcodeFamily{gpt_bigcode_family};

}  // namespace transom
