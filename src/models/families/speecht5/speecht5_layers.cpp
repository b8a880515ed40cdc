// SPDX-License-Identifier: Apache-2.0
#include "models/families/speecht5/speecht5_layers.h"

#include <cmath>

#include "base/error.h"
#include "models/nn/attention/attention.h"
#include "transom/ops.h"

namespace transom {
namespace {

class SpeechT5Attention {
 public:
  SpeechT5Attention(const Scope& scope, const SpeechT5Config& c, int64_t heads)
      : heads_(heads),
        scale_(1 / std::sqrt(static_cast<double>(c.hidden_size / heads))),
        k_proj_(scope / "k_proj", c.hidden_size, c.hidden_size, c.new_weights()),
        v_proj_(scope / "v_proj", c.hidden_size, c.hidden_size, c.new_weights()),
        q_proj_(scope / "q_proj", c.hidden_size, c.hidden_size, c.new_weights()),
        out_proj_(scope / "out_proj", c.hidden_size, c.hidden_size, c.new_weights()),
        dropout_(c.attention_dropout) {}

  // Each place sees all, with by_distance [T, T, d] (Shaw et al., 2018), which all heads share.
  Tensor operator()(const Tensor& x, const Tensor& mask, const Tensor& by_distance, ForwardContext& context) const {
    const Tensor q = heads(q_proj_(x, context));
    Tensor bias = cast(einsum("bthd,tsd->bhts", {q, by_distance}, context.computing), DType::kFloat32) * scale_;
    if (mask.defined()) bias = bias + mask;
    return out_proj_(attention(q, heads(k_proj_(x, context)), heads(v_proj_(x, context)), bias,
                               {.scale = scale_, .causal = false}, dropout_, context),
                     context);
  }
  Tensor causal(int64_t layer, const Tensor& x, const Tensor& mask, ForwardContext& context) const {
    return out_proj_(
        cached_attention(layer, heads(q_proj_(x, context)), heads(k_proj_(x, context)), heads(v_proj_(x, context)),
                         mask, {.scale = scale_, .causal = true}, dropout_, context),
        context);
  }
  Tensor across(int64_t layer, const Tensor& x, const EncodedSource& source, ForwardContext& context) const {
    const KeysAndValues keys = source_keys(layer, source, context, [&](const Tensor& states) {
      return KeysAndValues{heads(k_proj_(states, context)), heads(v_proj_(states, context))};
    });
    const Tensor q = heads(q_proj_(x, context));
    if (source.seen) source.seen->push_back(weights_on_source(q, keys.keys, source.mask, scale_, context.computing));
    return out_proj_(attention_to_source(q, keys, source.mask, scale_, dropout_, context), context);
  }

 private:
  Tensor heads(const Tensor& x) const { return reshape(x, {x.dim(0), x.dim(1), heads_, x.dim(2) / heads_}); }

  int64_t heads_;
  double scale_;
  Linear k_proj_, v_proj_, q_proj_, out_proj_;
  Dropout dropout_;
};

class SpeechT5FeedForward {
 public:
  SpeechT5FeedForward(const Scope& scope, const SpeechT5Config& c, int64_t inner)
      : activation_(c.hidden_act),
        intermediate_dense_(scope / "intermediate_dense", c.hidden_size, inner, c.new_weights()),
        output_dense_(scope / "output_dense", inner, c.hidden_size, c.new_weights()),
        intermediate_dropout_(c.activation_dropout),
        output_dropout_(c.hidden_dropout) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor h = intermediate_dropout_(activation(activation_, intermediate_dense_(x, context)), context);
    return output_dropout_(output_dense_(h, context), context);
  }

 private:
  std::string activation_;
  Linear intermediate_dense_, output_dense_;
  Dropout intermediate_dropout_, output_dropout_;
};

// [T, D] of the places from `first` on, rounded as torch does it.
Tensor speecht5_sinusoids(int64_t first, int64_t T, int64_t D) {
  std::vector<float> values(static_cast<size_t>(T * D));
  const auto fall = -static_cast<float>(std::log(10000.0) / static_cast<double>(D));
  for (int64_t t = 0; t < T; ++t)
    for (int64_t i = 0; i < D; i += 2) {
      const float angle = static_cast<float>(first + t) * std::exp(static_cast<float>(i) * fall);
      values[static_cast<size_t>(t * D + i)] = std::sin(angle);
      if (i + 1 < D) values[static_cast<size_t>(t * D + i + 1)] = std::cos(angle);
    }
  return Tensor::from(values, {T, D});
}

}  // namespace

SpeechT5Positions::SpeechT5Positions(const Scope& scope, const SpeechT5Config& c, int64_t most, std::string what)
    : most_(most),
      what_(std::move(what)),
      alpha_(scope.parameter("alpha", {}, Initial::ones())),
      dropout_(c.positional_dropout) {
  scope.derived("pe");
}

Tensor SpeechT5Positions::operator()(const Tensor& x, int64_t first, ForwardContext& context) const {
  const int64_t T = x.dim(1), D = x.dim(2);
  if (first + T > most_) fail("SpeechT5: expected at most {} {}, found {}", most_, what_, first + T);
  const Tensor places = cast(speecht5_sinusoids(first, T, D), x.dtype());
  return dropout_(x + places * cast(alpha_->value, x.dtype()), context);
}

SpeechT5TextPrenet::SpeechT5TextPrenet(const Scope& scope, const SpeechT5Config& c)
    : embed_tokens_(scope / "embed_tokens", c.vocab_size, c.hidden_size, c.initializer_range, c.padding),
      encode_positions_(scope / "encode_positions", c, c.max_text_positions, "tokens (max_text_positions)") {}

Tensor SpeechT5TextPrenet::operator()(const Tensor& input_ids, ForwardContext& context) const {
  return encode_positions_(embed_tokens_(input_ids, context), 0, context);
}

class SpeechT5EncoderLayer {
 public:
  SpeechT5EncoderLayer(const Scope& scope, const SpeechT5Config& c)
      : attention_(scope / "attention", c, c.encoder_heads),
        dropout_(c.hidden_dropout),
        layer_norm_(scope / "layer_norm", c.hidden_size, c.layer_norm_eps),
        feed_forward_(scope / "feed_forward", c, c.encoder_ffn_dim),
        final_layer_norm_(scope / "final_layer_norm", c.hidden_size, c.layer_norm_eps),
        layerdrop_(c.encoder_layerdrop) {}
  Tensor operator()(const Tensor& x, const Tensor& mask, const Tensor& by_distance, ForwardContext& context) const {
    const Tensor h = layer_norm_(x + dropout_(attention_(x, mask, by_distance, context), context), context);
    return layerdrop_(x, final_layer_norm_(h + feed_forward_(h, context), context), context);
  }

 private:
  SpeechT5Attention attention_;
  Dropout dropout_;
  LayerNorm layer_norm_;
  SpeechT5FeedForward feed_forward_;
  LayerNorm final_layer_norm_;
  LayerDrop layerdrop_;
};

SpeechT5Encoder::SpeechT5Encoder(const Scope& scope, const SpeechT5Config& c)
    : reach_(c.max_relative_position),
      layer_norm_(scope / "layer_norm", c.hidden_size, c.layer_norm_eps),
      dropout_(c.hidden_dropout),
      pe_k_(scope / "embed_positions" / "pe_k", 2 * c.max_relative_position, c.hidden_size / c.encoder_heads,
            c.initializer_range) {
  for (int64_t i = 0; i < c.encoder_layers; ++i)
    layers_.push_back(std::make_shared<SpeechT5EncoderLayer>(scope / "layers" / i, c));
}

Tensor SpeechT5Encoder::operator()(Tensor x, const Tensor& mask, ForwardContext& context) const {
  x = dropout_(layer_norm_(x, context), context);
  const int64_t S = x.dim(1);
  const Tensor apart = iota({S, S}, 0) - iota({S, S}, 1);
  const Tensor near = minimum(maximum(apart, constant(static_cast<double>(-reach_), DType::kInt64)),
                              constant(static_cast<double>(reach_ - 1), DType::kInt64));
  const Tensor by_distance = pe_k_(near + static_cast<double>(reach_), context);  // [S, S, d]
  for (const auto& layer : layers_) x = (*layer)(x, mask, by_distance, context);
  return x;
}

class SpeechT5DecoderLayer {
 public:
  SpeechT5DecoderLayer(const Scope& scope, const SpeechT5Config& c, int64_t layer)
      : layer_(layer),
        self_attn_(scope / "self_attn", c, c.decoder_heads),
        dropout_(c.hidden_dropout),
        self_attn_layer_norm_(scope / "self_attn_layer_norm", c.hidden_size, c.layer_norm_eps),
        encoder_attn_(scope / "encoder_attn", c, c.decoder_heads),
        encoder_attn_layer_norm_(scope / "encoder_attn_layer_norm", c.hidden_size, c.layer_norm_eps),
        feed_forward_(scope / "feed_forward", c, c.decoder_ffn_dim),
        final_layer_norm_(scope / "final_layer_norm", c.hidden_size, c.layer_norm_eps),
        layerdrop_(c.decoder_layerdrop) {}
  Tensor operator()(const Tensor& x, const Tensor& mask, const EncodedSource& source, ForwardContext& context) const {
    Tensor h = self_attn_layer_norm_(x + dropout_(self_attn_.causal(layer_, x, mask, context), context), context);
    h = encoder_attn_layer_norm_(h + dropout_(encoder_attn_.across(layer_, h, source, context), context), context);
    return layerdrop_(x, final_layer_norm_(h + feed_forward_(h, context), context), context);
  }

 private:
  int64_t layer_;
  SpeechT5Attention self_attn_;
  Dropout dropout_;
  LayerNorm self_attn_layer_norm_;
  SpeechT5Attention encoder_attn_;
  LayerNorm encoder_attn_layer_norm_;
  SpeechT5FeedForward feed_forward_;
  LayerNorm final_layer_norm_;
  LayerDrop layerdrop_;
};

SpeechT5Decoder::SpeechT5Decoder(const Scope& scope, const SpeechT5Config& c) {
  for (int64_t i = 0; i < c.decoder_layers; ++i)
    layers_.push_back(std::make_shared<SpeechT5DecoderLayer>(scope / "layers" / i, c, i));
}

Tensor SpeechT5Decoder::operator()(Tensor x, const Tensor& mask, const EncodedSource& source,
                                   ForwardContext& context) const {
  for (const auto& layer : layers_) x = (*layer)(x, mask, source, context);
  return x;
}

}  // namespace transom
