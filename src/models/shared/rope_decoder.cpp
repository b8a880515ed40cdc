// SPDX-License-Identifier: Apache-2.0
#include "models/shared/rope_decoder.h"

#include <cmath>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {

// ---- configuration

int64_t int_or_none(const Config& config, const std::string& key, int64_t otherwise) {
  return json_of(config).contains(key) ? config.get_int(key, 0) : otherwise;
}

RopeDecoderConfig::RopeDecoderConfig(const Config& config)
    : vocab_size(config.get_int("vocab_size", 32000)),
      hidden_size(config.get_int("hidden_size", 4096)),
      intermediate_size(config.get_int("intermediate_size", 11008)),
      num_hidden_layers(config.get_int("num_hidden_layers", 32)),
      num_attention_heads(config.get_int("num_attention_heads", 32)),
      num_key_value_heads(config.get_int("num_key_value_heads", num_attention_heads)),
      head_dim(config.get_int("head_dim", num_attention_heads > 0 ? hidden_size / num_attention_heads : 0)),
      max_position_embeddings(config.get_int("max_position_embeddings", 2048)),
      hidden_act(config.get_string("hidden_act", "silu")),
      norm_eps(config.get_float("rms_norm_eps", 1e-6)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      attention_dropout(config.get_float("attention_dropout", 0)),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", false)) {
  if (config.has("pad_token_id")) {
    pad_token_id = config.get_int("pad_token_id");
    if (*pad_token_id < 0) *pad_token_id += vocab_size;  // as PyTorch counts it
  }
  if (num_attention_heads <= 0 || num_key_value_heads <= 0 || num_attention_heads % num_key_value_heads != 0)
    fail("config.json: num_attention_heads {} is not divisible by num_key_value_heads {}", num_attention_heads,
         num_key_value_heads);
  if (head_dim < 1) fail("config.json: head_dim: expected a number above 0, found {}", head_dim);
  attention_scale = 1 / std::sqrt(static_cast<double>(head_dim));
  sliding_windows.assign(static_cast<size_t>(std::max<int64_t>(0, num_hidden_layers)), 0);
}

RotaryDefaults RopeDecoderConfig::rotary_defaults(double theta) const {
  return {.head_width = head_dim, .theta = theta, .partial = false, .max_positions = max_position_embeddings};
}

std::vector<std::string> RopeDecoderConfig::layer_types(const Config& config,
                                                        bool (*slides)(const Config&, int64_t)) const {
  std::vector<std::string> types = config.get_strings("layer_types");
  if (types.empty())
    for (int64_t i = 0; i < num_hidden_layers; ++i)
      types.push_back(slides(config, i) ? "sliding_attention" : "full_attention");
  if (static_cast<int64_t>(types.size()) != num_hidden_layers)
    fail("config.json: layer_types: expected {} of them (num_hidden_layers), found {}", num_hidden_layers,
         types.size());
  for (const std::string& type : types)
    if (type != "full_attention" && type != "sliding_attention")
      fail(ErrorKind::kUnsupported,
           "config.json: layer_types: {} is not carried out; full_attention and sliding_attention are", quoted(type));
  return types;
}

void RopeDecoderConfig::slide_where(const Config& config, const std::vector<std::string>& types, int64_t window) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "sliding_attention") continue;
    if (window <= 0)
      fail("{}: sliding_window: expected a number, as layer_types names sliding_attention", config.where());
    sliding_windows[i] = window;
  }
}

namespace {

// ---- layers

class Norm {
 public:
  Norm(const Scope& scope, int64_t width, const RopeDecoderConfig& c) {
    if (c.norm == RopeDecoderConfig::Norm::kLayerNorm) layer_norm_.emplace(scope, width, c.norm_eps);
    else rms_norm_.emplace(scope, width, c.norm_eps, c.norm == RopeDecoderConfig::Norm::kRmsFromOne);
  }
  Norm(const Scope& scope, const RopeDecoderConfig& c) : Norm(scope, c.hidden_size, c) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return layer_norm_ ? (*layer_norm_)(x, context) : (*rms_norm_)(x, context);
  }

 private:
  std::optional<LayerNorm> layer_norm_;
  std::optional<RmsNorm> rms_norm_;
};

class Attention {
 public:
  Attention(const Scope& scope, const RopeDecoderConfig& c, int64_t layer)
      : layer_(layer),
        heads_(c.num_attention_heads),
        key_value_heads_(c.num_key_value_heads),
        head_dim_(c.head_dim),
        options_{.scale = c.attention_scale,
                 .sliding_window = c.sliding_windows[static_cast<size_t>(layer)],
                 .soft_cap = c.attention_soft_cap},
        has_joint_norms_(c.joint_norms),
        clip_(c.projection_clip),
        dropout_(c.attention_dropout) {
    const int64_t queries = heads_ * head_dim_, keys = key_value_heads_ * head_dim_;
    const Linear::Options inward{.bias = c.query_key_value_bias, .deviation = c.initializer_range},
        outward{.bias = c.output_bias, .deviation = c.initializer_range};
    if (c.fused_projections) {
      qkv_proj_.emplace(scope / "qkv_proj", c.hidden_size, queries + 2 * keys, inward);
    } else {
      q_proj_.emplace(scope / "q_proj", c.hidden_size, queries, inward);
      k_proj_.emplace(scope / "k_proj", c.hidden_size, keys, inward);
      v_proj_.emplace(scope / "v_proj", c.hidden_size, keys, inward);
    }
    o_proj_.emplace(scope / "o_proj", queries, c.hidden_size, outward);
    if (c.head_norms || c.joint_norms) {
      q_norm_.emplace(scope / "q_norm", c.joint_norms ? queries : head_dim_, c);
      k_norm_.emplace(scope / "k_norm", c.joint_norms ? keys : head_dim_, c);
    }
  }

  Tensor operator()(const Tensor& x, const DecoderInputs& in, const RotaryAngles& angles,
                    ForwardContext& context) const {
    auto [q, k, v] = project(x, context);
    if (q_norm_ && !has_joint_norms_) q = (*q_norm_)(q, context), k = (*k_norm_)(k, context);
    AttentionOptions options = options_;
    options.causal = in.causal;
    if (!in.causal) options.sliding_window = 0;  // a mask of four axes says all
    return (*o_proj_)(
        cached_attention(layer_, rotate(q, angles), rotate(k, angles), v, in.bias, options, dropout_, context),
        context);
  }

 private:
  struct Projected {
    Tensor q, k, v;  // [B, T, H, d], [B, T, G, d], [B, T, G, d]
  };
  Projected project(const Tensor& x, ForwardContext& context) const {
    const auto split = [&](const Tensor& y, int64_t heads) {
      return reshape(y, {x.dim(0), x.dim(1), heads, head_dim_});
    };
    if (!qkv_proj_) {
      Tensor q = (*q_proj_)(x, context), k = (*k_proj_)(x, context);
      if (has_joint_norms_) q = (*q_norm_)(q, context), k = (*k_norm_)(k, context);
      return {split(clipped(q), heads_), split(clipped(k), key_value_heads_),
              split(clipped((*v_proj_)(x, context)), key_value_heads_)};
    }
    const Tensor all = split((*qkv_proj_)(x, context), heads_ + 2 * key_value_heads_);
    const int64_t keys = heads_, values = heads_ + key_value_heads_;
    return {slice(all, 2, 0, keys), slice(all, 2, keys, values), slice(all, 2, values, values + key_value_heads_)};
  }

  Tensor clipped(const Tensor& x) const {
    if (clip_ == 0) return x;
    return minimum(maximum(x, full(x.shape(), -clip_, x.dtype())), full(x.shape(), clip_, x.dtype()));
  }

  int64_t layer_, heads_, key_value_heads_, head_dim_;
  AttentionOptions options_;
  bool has_joint_norms_;
  double clip_;
  std::optional<Linear> qkv_proj_, q_proj_, k_proj_, v_proj_, o_proj_;
  std::optional<Norm> q_norm_, k_norm_;
  Dropout dropout_;
};

class FeedForward {
 public:
  FeedForward(const Scope& scope, const RopeDecoderConfig& c) : activation_(c.hidden_act), width_(c.intermediate_size) {
    const Linear::Options options{.bias = c.mlp_bias, .deviation = c.initializer_range};
    if (!c.gated) {
      up_.emplace(scope / "c_fc", c.hidden_size, width_, options);
      down_.emplace(scope / "c_proj", width_, c.hidden_size, options);
      return;
    }
    if (c.fused_projections) {
      gate_up_.emplace(scope / "gate_up_proj", c.hidden_size, 2 * width_, options);
    } else {
      gate_.emplace(scope / "gate_proj", c.hidden_size, width_, options);
      up_.emplace(scope / "up_proj", c.hidden_size, width_, options);
    }
    down_.emplace(scope / "down_proj", width_, c.hidden_size, options);
  }

  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    if (gate_up_) {
      const Tensor both = (*gate_up_)(x, context);
      const Tensor gate = slice(both, -1, 0, width_), up = slice(both, -1, width_, 2 * width_);
      return (*down_)(up * activation(activation_, gate), context);
    }
    if (gate_) return (*down_)(activation(activation_, (*gate_)(x, context)) * (*up_)(x, context), context);
    return (*down_)(activation(activation_, (*up_)(x, context)), context);
  }

 private:
  std::string activation_;
  int64_t width_;
  std::optional<Linear> gate_up_, gate_, up_, down_;
};

class Layer {
 public:
  Layer(const Scope& scope, const RopeDecoderConfig& c, int64_t layer)
      : index(static_cast<size_t>(layer)),
        path_(scope.path()),
        self_attn_(scope / "self_attn", c, layer),
        input_layernorm_(scope / "input_layernorm", c),
        post_attention_layernorm_(scope / "post_attention_layernorm", c),
        dropout_(c.residual_dropout) {
    if (c.experts && c.experts->at(index)) experts_.emplace(scope / c.experts->names.block, *c.experts);
    else mlp_.emplace(scope / "mlp", c);
    if (c.norms_behind) {
      pre_feedforward_layernorm_.emplace(scope / "pre_feedforward_layernorm", c);
      post_feedforward_layernorm_.emplace(scope / "post_feedforward_layernorm", c);
    }
  }

  Tensor operator()(const Tensor& x, const DecoderInputs& in, const RotaryAngles& angles, std::vector<Tensor>* router,
                    ForwardContext& context) const {
    const ModuleScope module(path_);
    const Tensor attended = dropout_(self_attn_(input_layernorm_(x, context), in, angles, context), context);
    const auto feed_forward = [&](const Tensor& y) {
      return dropout_(experts_ ? (*experts_)(y, context, router) : (*mlp_)(y, context), context);
    };
    if (!pre_feedforward_layernorm_) {
      const Tensor h = x + attended;
      return h + feed_forward(post_attention_layernorm_(h, context));
    }
    const Tensor h = x + post_attention_layernorm_(attended, context);
    return h + (*post_feedforward_layernorm_)(feed_forward((*pre_feedforward_layernorm_)(h, context)), context);
  }

  size_t index;

 private:
  std::string path_;
  Attention self_attn_;
  std::optional<FeedForward> mlp_;
  std::optional<MixtureOfExperts> experts_;
  Norm input_layernorm_, post_attention_layernorm_;
  std::optional<Norm> pre_feedforward_layernorm_, post_feedforward_layernorm_;
  Dropout dropout_;
};

// ---- the body

class RopeDecoder : public Decoder {
 public:
  RopeDecoder(const RopeDecoderConfig& config, const Scope& scope)
      : c_(config),
        embed_tokens_(scope / "embed_tokens", c_.vocab_size, c_.hidden_size, c_.initializer_range,
                      c_.pad_token_id.value_or(-1)),
        norm_(scope / "norm", c_),
        dropout_(c_.embedding_dropout) {
    for (int64_t i = 0; i < c_.num_hidden_layers; ++i) layers_.emplace_back(scope / "layers" / i, c_, i);
    for (const RotaryOptions& options : c_.rotary) rotary_.emplace_back(options);
  }

  DecoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const override {
    const DecoderInputs in = decoder_inputs(inputs, context, Positions::kInOrder);
    const Tensor x = in.inputs_embeds.defined() ? in.inputs_embeds : embed(in.input_ids, context);
    std::vector<RotaryAngles> angles;
    for (const RotaryEmbedding& rotary : rotary_) angles.push_back(rotary(in.position_ids));
    std::vector<Tensor> router;
    const bool balances = c_.experts && c_.experts->auxiliary_weight != 0;
    if (c_.experts && c_.experts->jitter != 0 && context.training)
      fail(ErrorKind::kUnsupported, "config.json: router_jitter_noise = {} is not carried out in training; only 0 is",
           c_.experts->jitter);
    if (balances && context.gradient_checkpointing && context.training)
      fail("gradient checkpointing is not offered together with output_router_logits");
    DecoderOutput output =
        through_decoder(layers_, dropout_(x, context), context, norm_, [&](const Layer& layer, const Tensor& y) {
          return layer(y, in, angles[angles.size() == 1 ? 0 : layer.index], balances ? &router : nullptr, context);
        });
    output.router_logits = std::move(router);
    return output;
  }

  Tensor embed(const Tensor& input_ids, ForwardContext& context) const override {
    const Tensor x = embed_tokens_(input_ids, context);
    return c_.embedding_scale == 1 ? x : x * c_.embedding_scale;
  }

  DecoderTraits traits() const override {
    return {.vocab_size = c_.vocab_size,
            .width = c_.hidden_size,
            .tie_word_embeddings = c_.tie_word_embeddings,
            .initializer_range = c_.initializer_range,
            .logit_soft_cap = c_.logit_soft_cap,
            .pad_token_id = c_.pad_token_id,
            .cache_expires_at = c_.cache_expires_at,
            .auxiliary_weight = c_.experts ? c_.experts->auxiliary_weight : 0};
  }
  const Embedding& word_embeddings() const override { return embed_tokens_; }
  Tensor auxiliary_loss(const DecoderOutput& output, const NamedTensors& inputs) const override {
    if (output.router_logits.empty()) return {};
    return load_balancing_loss(output.router_logits, c_.experts->experts_per_token, inputs.find("attention_mask"));
  }

 private:
  RopeDecoderConfig c_;
  Embedding embed_tokens_;
  std::vector<Layer> layers_;
  Norm norm_;
  std::vector<RotaryEmbedding> rotary_;
  Dropout dropout_;
};

}  // namespace

std::unique_ptr<Decoder> make_rope_decoder(const RopeDecoderConfig& config, const Scope& scope) {
  return std::make_unique<RopeDecoder>(config, scope);
}

}  // namespace transom
