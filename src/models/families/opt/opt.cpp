// SPDX-License-Identifier: Apache-2.0
// OPT (Zhang et al., 2022): pre-norm, or post-norm as its 350M model; learned positions that skip padding.
// B batch, T time, D hidden, H heads, d head size.
#include <cmath>

#include "base/error.h"
#include "models/shared/decoder.h"

namespace transom {
namespace {

struct OptConfig {
  explicit OptConfig(const Config& config);
  int64_t vocab_size, hidden_size, num_hidden_layers, ffn_dim, max_position_embeddings, num_attention_heads,
      word_embed_proj_dim;
  std::string activation_function;
  double dropout, attention_dropout, layerdrop, init_std;
  bool do_layer_norm_before, remove_final_layer_norm, enable_bias, layer_norm_elementwise_affine, tie_word_embeddings;
  std::optional<int64_t> pad_token_id;

  Linear::Options linear() const { return {.bias = enable_bias, .deviation = init_std}; }
};

OptConfig::OptConfig(const Config& config)
    : vocab_size(config.get_int("vocab_size", 50272)),
      hidden_size(config.get_int("hidden_size", 768)),
      num_hidden_layers(config.get_int("num_hidden_layers", 12)),
      ffn_dim(config.get_int("ffn_dim", 3072)),
      max_position_embeddings(config.get_int("max_position_embeddings", 2048)),
      num_attention_heads(config.get_int("num_attention_heads", 12)),
      word_embed_proj_dim(config.get_int("word_embed_proj_dim", hidden_size)),
      activation_function(config.get_string("activation_function", "relu")),
      dropout(config.get_float("dropout", 0.1)),
      attention_dropout(config.get_float("attention_dropout", 0)),
      layerdrop(config.get_float("layerdrop", 0)),
      init_std(config.get_float("init_std", 0.02)),
      do_layer_norm_before(config.get_bool("do_layer_norm_before", true)),
      remove_final_layer_norm(config.get_bool("_remove_final_layer_norm", false)),
      enable_bias(config.get_bool("enable_bias", true)),
      layer_norm_elementwise_affine(config.get_bool("layer_norm_elementwise_affine", true)),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", true)),
      pad_token_id(padding_id(config, 1)) {
  if (num_attention_heads <= 0 || hidden_size % num_attention_heads != 0)
    fail("config.json: hidden_size {} is not divisible by num_attention_heads {}", hidden_size, num_attention_heads);
}

// A layer norm, with a scale and a bias or without.
class OptNorm {
 public:
  OptNorm(const Scope& scope, const OptConfig& c) {
    if (c.layer_norm_elementwise_affine) norm_.emplace(scope, c.hidden_size, kEpsilon);
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    if (norm_) return (*norm_)(x, context);
    const Shape width{x.dim(-1)};
    return layer_norm(x, full(width, 1, x.dtype()), full(width, 0, x.dtype()), kEpsilon, context.computing);
  }

 private:
  static constexpr double kEpsilon = 1e-5;
  std::optional<LayerNorm> norm_;
};

class OptAttention {
 public:
  OptAttention(const Scope& scope, const OptConfig& c, int64_t layer)
      : layer_(layer),
        heads_(c.num_attention_heads),
        k_proj_(scope / "k_proj", c.hidden_size, c.hidden_size, c.linear()),
        v_proj_(scope / "v_proj", c.hidden_size, c.hidden_size, c.linear()),
        q_proj_(scope / "q_proj", c.hidden_size, c.hidden_size, c.linear()),
        out_proj_(scope / "out_proj", c.hidden_size, c.hidden_size, c.linear()),
        dropout_(c.attention_dropout) {}

  Tensor operator()(const Tensor& x, const DecoderInputs& in, ForwardContext& context) const {
    const int64_t B = x.dim(0), T = x.dim(1), d = x.dim(2) / heads_;
    const auto heads = [&](const Tensor& y) { return reshape(y, {B, T, heads_, d}); };
    return out_proj_(
        cached_attention(layer_, heads(q_proj_(x, context)), heads(k_proj_(x, context)), heads(v_proj_(x, context)),
                         in.bias, {.scale = 1 / std::sqrt(static_cast<double>(d)), .causal = in.causal}, dropout_,
                         context),
        context);
  }

 private:
  int64_t layer_, heads_;
  Linear k_proj_, v_proj_, q_proj_, out_proj_;
  Dropout dropout_;
};

class OptLayer {
 public:
  OptLayer(const Scope& scope, const OptConfig& c, int64_t layer)
      : path_(scope.path()),
        norm_before_(c.do_layer_norm_before),
        activation_(c.activation_function),
        self_attn_(scope / "self_attn", c, layer),
        self_attn_layer_norm_(scope / "self_attn_layer_norm", c),
        fc1_(scope / "fc1", c.hidden_size, c.ffn_dim, c.linear()),
        fc2_(scope / "fc2", c.ffn_dim, c.hidden_size, c.linear()),
        final_layer_norm_(scope / "final_layer_norm", c),
        dropout_(c.dropout) {}

  Tensor operator()(const Tensor& x, const DecoderInputs& in, ForwardContext& context) const {
    const ModuleScope module(path_);
    const auto attention = [&](const Tensor& y) { return dropout_(self_attn_(y, in, context), context); };
    const auto feed_forward = [&](const Tensor& y) {
      return dropout_(fc2_(activation(activation_, fc1_(y, context)), context), context);
    };
    if (norm_before_) {
      const Tensor h = x + attention(self_attn_layer_norm_(x, context));
      return h + feed_forward(final_layer_norm_(h, context));
    }
    const Tensor h = self_attn_layer_norm_(x + attention(x), context);
    return final_layer_norm_(h + feed_forward(h), context);
  }

 private:
  std::string path_;
  bool norm_before_;
  std::string activation_;
  OptAttention self_attn_;
  OptNorm self_attn_layer_norm_;
  Linear fc1_, fc2_;
  OptNorm final_layer_norm_;
  Dropout dropout_;
};

class Opt : public Decoder {
 public:
  Opt(const Config& config, const Scope& outer)
      : c_(config),
        embed_tokens_(outer / "decoder" / "embed_tokens", c_.vocab_size, c_.word_embed_proj_dim, c_.init_std,
                      c_.pad_token_id.value_or(-1)),
        embed_positions_(outer / "decoder" / "embed_positions", c_.max_position_embeddings + kOffset, c_.hidden_size,
                         c_.init_std) {
    const Scope scope = outer / "decoder";
    if (c_.word_embed_proj_dim != c_.hidden_size) {
      const Linear::Options plain{.bias = false, .deviation = c_.init_std};
      project_out_.emplace(scope / "project_out", c_.hidden_size, c_.word_embed_proj_dim, plain);
      project_in_.emplace(scope / "project_in", c_.word_embed_proj_dim, c_.hidden_size, plain);
    }
    if (c_.do_layer_norm_before && !c_.remove_final_layer_norm)
      final_layer_norm_.emplace(scope / "final_layer_norm", c_);
    for (int64_t i = 0; i < c_.num_hidden_layers; ++i) layers_.emplace_back(scope / "layers" / i, c_, i);
  }

  DecoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const override {
    if (context.training && c_.layerdrop > 0)
      fail("config.json: layerdrop = {} is not carried out in training; only 0 is", c_.layerdrop);
    const DecoderInputs in = decoder_inputs(inputs, context, Positions::kByMask, c_.max_position_embeddings);
    Tensor x = in.input_ids.defined() ? embed_tokens_(in.input_ids, context) : in.inputs_embeds;
    if (project_in_) x = (*project_in_)(x, context);
    x = x + embed_positions_(in.position_ids + static_cast<double>(kOffset), context);
    const auto behind = [&](const Tensor& y, ForwardContext&) {
      const Tensor normed = final_layer_norm_ ? (*final_layer_norm_)(y, context) : y;
      return project_out_ ? (*project_out_)(normed, context) : normed;
    };
    return through_decoder(layers_, x, context, behind,
                           [&](const OptLayer& layer, const Tensor& y) { return layer(y, in, context); });
  }

  DecoderTraits traits() const override {
    return {.vocab_size = c_.vocab_size,
            .width = c_.word_embed_proj_dim,
            .tie_word_embeddings = c_.tie_word_embeddings,
            .initializer_range = c_.init_std,
            .pad_token_id = c_.pad_token_id,
            .max_positions = c_.max_position_embeddings};
  }
  const Embedding& word_embeddings() const override { return embed_tokens_; }

 private:
  static constexpr int64_t kOffset = 2;  // the first rows of embed_positions stand for no position

  OptConfig c_;
  Embedding embed_tokens_, embed_positions_;
  std::optional<Linear> project_out_, project_in_;
  std::optional<OptNorm> final_layer_norm_;
  std::vector<OptLayer> layers_;
};

constexpr char kOptPrefix[] = "model";
std::unique_ptr<Decoder> make_opt(const Config& config, const Scope& scope) {
  return std::make_unique<Opt>(config, scope);
}

}  // namespace

static Family opt_family() {
  return {.model_type = "opt",
          .base_prefix = kOptPrefix,
          .architectures = {decoder_architecture<make_opt, kOptPrefix, DecoderHead::kNone>("OPTModel"),
                            decoder_architecture<make_opt, kOptPrefix, DecoderHead::kCausalLM>("OPTForCausalLM"),
                            decoder_architecture<make_opt, kOptPrefix, DecoderHead::kSequenceClassification>(
                                "OPTForSequenceClassification"),
                            decoder_architecture<make_opt, kOptPrefix, DecoderHead::kQuestionAnswering>(
                                "OPTForQuestionAnswering")},
          .inputs = placed_text_inputs(FamilyInput::Export::kStates),
          .processors = {.tokenizer = "GPT2",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = {"q_proj", "v_proj"},
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none,
                      .adapter_targets = {.ia3 = {"q_proj", "k_proj", "fc2"},
                                          .ia3_feedforward = {"fc2"},
                                          .norms = {},
                                          .adalora = {"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"}}},
          .foreign = {.gguf = none,
                      .keras = KerasNames{.body = "model",
                                          .joint = ".",
                                          .without = {"OPTForQuestionAnswering", "OPTForSequenceClassification"},
                                          .own_tables = {"embed_tokens"}},
                      .flax = FlaxNames{.without = {"OPTForSequenceClassification", "OPTForQuestionAnswering"}}},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kOptFamily{opt_family};

}  // namespace transom
