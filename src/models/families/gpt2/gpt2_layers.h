// SPDX-License-Identifier: Apache-2.0
// The layers of GPT-2 (Radford et al., 2019), also those of a decoder that reads what an encoder saw. B batch, T time,
// D hidden, H heads, d head size.
#pragma once

#include <cmath>

#include "base/error.h"
#include "models/nn/weight.h"
#include "models/shared/decoder.h"

namespace transom {

struct Gpt2Config {
  explicit Gpt2Config(const Config& config);
  int64_t vocab_size, n_positions, n_embd, n_layer, n_head, n_inner;
  std::string activation_function;
  double resid_pdrop, embd_pdrop, attn_pdrop, layer_norm_epsilon, initializer_range;
  bool scale_attn_weights, scale_attn_by_inverse_layer_idx, tie_word_embeddings;
  std::optional<int64_t> pad_token_id;

  double attention_scale(int64_t layer) const {
    const double scale = scale_attn_weights ? 1 / std::sqrt(static_cast<double>(n_embd / n_head)) : 1.0;
    return scale / (scale_attn_by_inverse_layer_idx ? static_cast<double>(layer + 1) : 1.0);
  }
  // Of new weights of what is added to x.
  double residual_deviation() const { return initializer_range / std::sqrt(2.0 * static_cast<double>(n_layer)); }
};

inline Gpt2Config::Gpt2Config(const Config& config)
    : vocab_size(config.get_int("vocab_size", 50257)),
      n_positions(config.get_int("n_positions", config.get_int("max_position_embeddings", 1024))),
      n_embd(config.get_int("n_embd", config.get_int("hidden_size", 768))),
      n_layer(config.get_int("n_layer", config.get_int("num_hidden_layers", 12))),
      n_head(config.get_int("n_head", config.get_int("num_attention_heads", 12))),
      n_inner(config.get_int("n_inner", 4 * n_embd)),
      activation_function(config.get_string("activation_function", "gelu_new")),
      resid_pdrop(config.get_float("resid_pdrop", 0.1)),
      embd_pdrop(config.get_float("embd_pdrop", 0.1)),
      attn_pdrop(config.get_float("attn_pdrop", 0.1)),
      layer_norm_epsilon(config.get_float("layer_norm_epsilon", 1e-5)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      scale_attn_weights(config.get_bool("scale_attn_weights", true)),
      scale_attn_by_inverse_layer_idx(config.get_bool("scale_attn_by_inverse_layer_idx", false)),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", true)) {
  if (config.has("pad_token_id")) pad_token_id = config.get_int("pad_token_id");
  if (n_head <= 0 || n_embd % n_head != 0) fail("config.json: n_embd {} is not divisible by n_head {}", n_embd, n_head);
  // reorder_and_upcast_attn asks for scores in f32, which they are here.
}

// A linear layer that holds its weight the other way round, [in, out].
class Gpt2Conv1D {
 public:
  Gpt2Conv1D(const Scope& scope, int64_t in, int64_t out, double deviation)
      : path_(scope.path()),
        weight_(scope.parameter("weight", {in, out}, Initial::normal(deviation))),
        bias_(scope.parameter("bias", {out}, Initial::zeros())) {
    weight_->use = Parameter::Use::kTransposedLinear;
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const ModuleScope module(path_);
    return linear(x, *weight_, bias_->value, context);
  }

 private:
  std::string path_;
  std::shared_ptr<Parameter> weight_, bias_;
};

class Gpt2Attention {
 public:
  Gpt2Attention(const Scope& scope, const Gpt2Config& c, int64_t layer)
      : layer_(layer),
        heads_(c.n_head),
        scale_(c.attention_scale(layer)),
        c_attn_(scope / "c_attn", c.n_embd, 3 * c.n_embd, c.initializer_range),
        c_proj_(scope / "c_proj", c.n_embd, c.n_embd, c.residual_deviation()),
        attn_dropout_(c.attn_pdrop),
        resid_dropout_(c.resid_pdrop) {}

  Tensor operator()(const Tensor& x, const DecoderInputs& in, ForwardContext& context) const {
    const int64_t B = x.dim(0), T = x.dim(1), D = x.dim(2);
    const Tensor qkv = c_attn_(x, context);
    const auto heads = [&](int64_t i) {
      return reshape(slice(qkv, 2, i * D, (i + 1) * D), {B, T, heads_, D / heads_});
    };
    const Tensor mixed = cached_attention(layer_, heads(0), heads(1), heads(2), in.bias,
                                          {.scale = scale_, .causal = in.causal}, attn_dropout_, context);
    return resid_dropout_(c_proj_(mixed, context), context);
  }

 private:
  int64_t layer_, heads_;
  double scale_;
  Gpt2Conv1D c_attn_, c_proj_;
  Dropout attn_dropout_, resid_dropout_;
};

class Gpt2Mlp {
 public:
  Gpt2Mlp(const Scope& scope, const Gpt2Config& c)
      : activation_(c.activation_function),
        c_fc_(scope / "c_fc", c.n_embd, c.n_inner, c.initializer_range),
        c_proj_(scope / "c_proj", c.n_inner, c.n_embd, c.residual_deviation()),
        dropout_(c.resid_pdrop) {}
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    return dropout_(c_proj_(activation(activation_, c_fc_(x, context)), context), context);
  }

 private:
  std::string activation_;
  Gpt2Conv1D c_fc_, c_proj_;
  Dropout dropout_;
};

}  // namespace transom
