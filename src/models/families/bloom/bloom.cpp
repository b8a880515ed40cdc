// SPDX-License-Identifier: Apache-2.0
// BLOOM (Scao et al., 2022): no positions but a bias that falls with the distance (ALiBi, Press et al., 2021), and a
// norm behind the embeddings. B batch, T time, S places, D hidden, H heads, d head size.
#include <cmath>

#include "base/error.h"
#include "models/nn/attention/texts_in_rows.h"
#include "models/shared/decoder.h"

namespace transom {
namespace {

struct BloomConfig {
  explicit BloomConfig(const Config& config);
  int64_t vocab_size, hidden_size, n_layer, n_head;
  double layer_norm_epsilon, initializer_range, hidden_dropout, attention_dropout;
  bool apply_residual_connection_post_layernorm, tie_word_embeddings;
  std::optional<int64_t> pad_token_id;
};

BloomConfig::BloomConfig(const Config& config)
    : vocab_size(config.get_int("vocab_size", 250880)),
      hidden_size(config.get_int("n_embed", config.get_int("hidden_size", 64))),
      n_layer(config.get_int("n_layer", config.get_int("num_hidden_layers", 2))),
      n_head(config.get_int("n_head", config.get_int("num_attention_heads", 8))),
      layer_norm_epsilon(config.get_float("layer_norm_epsilon", 1e-5)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      hidden_dropout(config.get_float("hidden_dropout", 0)),
      attention_dropout(config.get_float("attention_dropout", 0)),
      apply_residual_connection_post_layernorm(config.get_bool("apply_residual_connection_post_layernorm", false)),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", true)) {
  if (config.has("pad_token_id")) pad_token_id = config.get_int("pad_token_id");
  if (n_head <= 0 || hidden_size % n_head != 0)
    fail("config.json: hidden_size {} is not divisible by n_head {}", hidden_size, n_head);
  constexpr int64_t kMostHeads = 1 << 16;  // each has a slope
  if (n_head > kMostHeads) fail("config.json: expected n_head of at most {}, found {}", kMostHeads, n_head);
  if (config.get_bool("slow_but_exact", false) && config.get_int("pretraining_tp", 1) > 1)
    fail("config.json: slow_but_exact = true with pretraining_tp {} leaves out biases, which is not carried out",
         config.get_int("pretraining_tp", 1));
}

// The slope of each head: a geometric series, with a second one between its members if H is no power of two.
std::vector<float> alibi_slopes(int64_t heads) {
  const auto power = static_cast<int64_t>(std::pow(2, std::floor(std::log2(static_cast<double>(heads)))));
  const auto series = [](int64_t count) {
    return std::pow(2.0, -std::pow(2.0, 3 - std::log2(static_cast<double>(count))));
  };
  std::vector<float> slopes;
  for (int64_t i = 1; i <= power; ++i)
    slopes.push_back(static_cast<float>(std::pow(series(power), static_cast<double>(i))));
  for (int64_t i = 1; static_cast<int64_t>(slopes.size()) < heads; i += 2)
    slopes.push_back(static_cast<float>(std::pow(series(2 * power), static_cast<double>(i))));
  return slopes;
}

class BloomBlock {
 public:
  BloomBlock(const Scope& scope, const BloomConfig& c, int64_t layer)
      : path_(scope.path()),
        layer_(layer),
        heads_(c.n_head),
        residual_behind_norm_(c.apply_residual_connection_post_layernorm),
        input_layernorm_(scope / "input_layernorm", c.hidden_size, c.layer_norm_epsilon),
        query_key_value_(scope / "self_attention" / "query_key_value", c.hidden_size, 3 * c.hidden_size,
                         {.deviation = c.initializer_range}),
        dense_(scope / "self_attention" / "dense", c.hidden_size, c.hidden_size, {.deviation = c.initializer_range}),
        post_attention_layernorm_(scope / "post_attention_layernorm", c.hidden_size, c.layer_norm_epsilon),
        dense_h_to_4h_(scope / "mlp" / "dense_h_to_4h", c.hidden_size, 4 * c.hidden_size,
                       {.deviation = c.initializer_range}),
        dense_4h_to_h_(scope / "mlp" / "dense_4h_to_h", 4 * c.hidden_size, c.hidden_size,
                       {.deviation = c.initializer_range}),
        attention_dropout_(c.attention_dropout),
        dropout_(c.hidden_dropout) {}

  // bias [B or 1, H, 1 or T, S]: the slopes, and the mask.
  Tensor operator()(const Tensor& x, const Tensor& bias, ForwardContext& context) const {
    const ModuleScope module(path_);
    const Tensor normed = input_layernorm_(x, context);
    const Tensor h = dropout_(attention(normed, bias, context), context) + (residual_behind_norm_ ? normed : x);
    const Tensor y = post_attention_layernorm_(h, context);
    return dropout_(dense_4h_to_h_(gelu_tanh(dense_h_to_4h_(y, context)), context), context) +
           (residual_behind_norm_ ? y : h);
  }

 private:
  // Queries, keys and values of one head lie side by side in the fused layer.
  Tensor attention(const Tensor& x, const Tensor& bias, ForwardContext& context) const {
    const int64_t B = x.dim(0), T = x.dim(1), d = x.dim(2) / heads_;
    const Tensor qkv = reshape(query_key_value_(x, context), {B, T, heads_, 3 * d});
    return dense_(cached_attention(layer_, slice(qkv, 3, 0, d), slice(qkv, 3, d, 2 * d), slice(qkv, 3, 2 * d, 3 * d),
                                   bias, {.scale = 1 / std::sqrt(static_cast<double>(d))}, attention_dropout_, context),
                  context);
  }

  std::string path_;
  int64_t layer_, heads_;
  bool residual_behind_norm_;
  LayerNorm input_layernorm_;
  Linear query_key_value_, dense_;
  LayerNorm post_attention_layernorm_;
  Linear dense_h_to_4h_, dense_4h_to_h_;
  Dropout attention_dropout_, dropout_;
};

class Bloom : public Decoder {
 public:
  Bloom(const Config& config, const Scope& scope)
      : c_(config),
        word_embeddings_(scope / "word_embeddings", c_.vocab_size, c_.hidden_size, c_.initializer_range),
        word_embeddings_layernorm_(scope / "word_embeddings_layernorm", c_.hidden_size, c_.layer_norm_epsilon),
        ln_f_(scope / "ln_f", c_.hidden_size, c_.layer_norm_epsilon),
        slopes_(Tensor::from(alibi_slopes(c_.n_head), {1, c_.n_head, 1, 1})) {
    for (int64_t i = 0; i < c_.n_layer; ++i) h_.emplace_back(scope / "h" / i, c_, i);
  }

  DecoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const override {
    const DecoderInputs in = decoder_inputs(inputs, context, Positions::kNone);
    if (!in.causal) fail("attention_mask: expected [batch, length]; this model counts distances by it");
    Tensor bias = alibi(in, context.texts);
    if (in.bias.defined()) bias = bias + in.bias;
    const Tensor x = in.input_ids.defined() ? word_embeddings_(in.input_ids, context) : in.inputs_embeds;
    return through_decoder(h_, word_embeddings_layernorm_(x, context), context, ln_f_,
                           [&](const BloomBlock& block, const Tensor& y) { return block(y, bias, context); });
  }

  DecoderTraits traits() const override {
    return {.vocab_size = c_.vocab_size,
            .width = c_.hidden_size,
            .tie_word_embeddings = c_.tie_word_embeddings,
            .initializer_range = c_.initializer_range,
            .token_head = "classifier",
            .pad_token_id = c_.pad_token_id};
  }
  const Embedding& word_embeddings() const override { return word_embeddings_; }
  std::vector<std::string> input_names() const override { return {"input_ids", "attention_mask", "inputs_embeds"}; }

 private:
  // slope x place of the key among those that the mask counts: [B or 1, H, 1, S]. What is left out, slope x place of
  // the query, is the same for all keys of a row and so nothing to its softmax.
  Tensor alibi(const DecoderInputs& in, const TextsInRows* texts) const {
    if (texts)
      return slopes_ * cast(reshape(texts->positions, {texts->positions.dim(0), 1, 1, in.length}), DType::kFloat32);
    if (!in.attention_mask.defined()) return slopes_ * cast(iota({1, 1, 1, in.length}, 3), DType::kFloat32);
    if (in.attention_mask.rank() != 2)
      fail("attention_mask: expected [batch, length]; this model counts distances by it");
    const Tensor counted = cast(in.attention_mask, DType::kInt64);
    const Tensor places = (cumulative_sum(counted, 1) - 1.0) * counted;
    return slopes_ * cast(reshape(places, {places.dim(0), 1, 1, places.dim(1)}), DType::kFloat32);
  }

  BloomConfig c_;
  Embedding word_embeddings_;
  LayerNorm word_embeddings_layernorm_;
  std::vector<BloomBlock> h_;
  LayerNorm ln_f_;
  Tensor slopes_;
};

constexpr char kBloomPrefix[] = "transformer";
std::unique_ptr<Decoder> make_bloom(const Config& config, const Scope& scope) {
  return std::make_unique<Bloom>(config, scope);
}

GgufFamily bloom_gguf() {
  constexpr auto kNumber = GgufUsual::Is::kNumber, kKey = GgufUsual::Is::kKey, kNotRead = GgufUsual::Is::kNotRead;
  return {.architecture = "bloom",
          .model_class = "BloomForCausalLM",
          .names = {.whole = {{"token_embd", "transformer.word_embeddings"},
                              {"token_embd_norm", "transformer.word_embeddings_layernorm"},
                              {"output_norm", "transformer.ln_f"},
                              {"output", "lm_head"}},
                    .stacks = {{"blk.",
                                "transformer.h.",
                                {{"attn_norm", "input_layernorm"},
                                 {"attn_qkv", "self_attention.query_key_value", GgufChange::kHeadsTogether},
                                 {"attn_output", "self_attention.dense"},
                                 {"ffn_norm", "post_attention_layernorm"},
                                 {"ffn_up", "mlp.dense_h_to_4h"},
                                 {"ffn_down", "mlp.dense_4h_to_h"}}}}},
          .keys = {{.key = "block_count", .field = "n_layer", .older = {"num_hidden_layers"}},
                   {.key = "context_length", .field = "seq_length", .written = {kNumber, 2048}, .read = {kNotRead}},
                   {.key = "embedding_length", .field = "hidden_size", .older = {"n_embed"}},
                   {.key = "feed_forward_length", .written = {kKey, 4, "embedding_length"}, .read = {kNotRead}},
                   {.key = "attention.head_count", .field = "n_head", .older = {"num_attention_heads"}},
                   {.key = "vocab_size", .field = "vocab_size", .read = {kNotRead}},
                   {.key = "attention.layer_norm_epsilon",
                    .field = "layer_norm_epsilon",
                    .kind = GgufKey::Kind::kNumber,
                    .written = {kNumber, 1e-5}}}};
}

}  // namespace

static Family bloom_family() {
  return {.model_type = "bloom",
          .base_prefix = kBloomPrefix,
          .architectures = answering_decoder_architectures<make_bloom, kBloomPrefix, kBloomPrefix>(
              "Bloom", {.tokens = "classifier"}),
          .inputs = text_inputs(),
          .processors =
              {.tokenizer = none, .image_processor = none, .positions = none, .spaced_words = true, .spans = false},
          .weights = {.lora_targets = {"query_key_value"},
                      .late_parts = none,
                      .awq_activation = ScaledActivation{"dense_h_to_4h", "gelu_impl"},
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none,
                      .adapter_targets = {.ia3 = {"query_key_value", "mlp.dense_4h_to_h"},
                                          .ia3_feedforward = {"mlp.dense_4h_to_h"},
                                          .norms = {"input_layernorm", "post_attention_layernorm", "ln_f"}}},
          .foreign = {.gguf = bloom_gguf(),
                      .keras = none,
                      .flax = FlaxNames{.without = {"BloomForSequenceClassification", "BloomForTokenClassification",
                                                    "BloomForQuestionAnswering"}}},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kBloomFamily{bloom_family};

}  // namespace transom
