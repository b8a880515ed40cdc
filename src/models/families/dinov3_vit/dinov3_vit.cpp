// SPDX-License-Identifier: Apache-2.0
// DINOv3's ViT (Simeoni et al., 2025): queries and keys of patches turn by the places of their middles in the picture,
// which has sides from -1 to 1 whatever its extents; tokens for notes stand behind that of the class. B batch, P
// patches, T tokens, D hidden, d head size.
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "models/family.h"
#include "models/nn/attention/attention.h"
#include "models/nn/attention/rotary.h"
#include "models/shared/encoder_body.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

struct Dinov3Config {
  explicit Dinov3Config(const Config& config)
      : hidden_size(positive(config, "hidden_size", 384)),
        intermediate_size(positive(config, "intermediate_size", 1536)),
        num_hidden_layers(config.get_int("num_hidden_layers", 12)),
        num_attention_heads(positive(config, "num_attention_heads", 6)),
        num_channels(config.get_int("num_channels", 3)),
        registers(config.get_int("num_register_tokens", 0)),
        patch_size(config.get_pair("patch_size", 16)),
        attention_dropout(config.get_float("attention_dropout", 0)),
        drop_path_rate(config.get_float("drop_path_rate", 0)),
        layer_norm_eps(config.get_float("layer_norm_eps", 1e-5)),
        layerscale_value(config.get_float("layerscale_value", 1)),
        initializer_range(config.get_float("initializer_range", 0.02)),
        rope_theta(config.get_float("rope_theta", 100)),
        hidden_act(config.get_string("hidden_act", "gelu")),
        query_bias(config.get_bool("query_bias", true)),
        key_bias(config.get_bool("key_bias", false)),
        value_bias(config.get_bool("value_bias", true)),
        proj_bias(config.get_bool("proj_bias", true)),
        mlp_bias(config.get_bool("mlp_bias", true)),
        use_gated_mlp(config.get_bool("use_gated_mlp", false)),
        shift(drawn(config, "pos_embed_shift", 0)),
        jitter(drawn(config, "pos_embed_jitter", 1)),
        rescale(drawn(config, "pos_embed_rescale", 1)) {
    if (hidden_size % (4 * num_attention_heads) != 0)
      fail("{}: hidden_size: expected a multiple of four times num_attention_heads {}, found {}", config.where(),
           num_attention_heads, hidden_size);
    if (registers < 0 || registers > 1 << 16)
      fail("{}: num_register_tokens: expected a number from 0 to {}, found {}", config.where(), 1 << 16, registers);
    if (!(rope_theta > 0)) fail("{}: rope_theta: expected a number above 0, found {}", config.where(), rope_theta);
    if (!json_of(config).contains("pos_embed_rescale")) rescale = 2;  // null: none
  }
  int64_t hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_channels, registers;
  Extents patch_size;
  double attention_dropout, drop_path_rate, layer_norm_eps, layerscale_value, initializer_range, rope_theta;
  std::string hidden_act;
  bool query_bias, key_bias, value_bias, proj_bias, mlp_bias, use_gated_mlp;
  double shift, jitter, rescale;  // of places in training: 0, 1 and 1 leave them
  Linear::Options new_weights(bool bias) const { return {.bias = bias, .deviation = initializer_range}; }

 private:
  static double drawn(const Config& config, std::string_view field, double least) {
    const double value = config.has(field) ? config.get_float(field) : least;
    if (!(value >= least) || value > 1e6)
      fail("{}: {}: expected a number from {} to 1e6, or null, found {}", config.where(), field, least, value);
    return value;
  }
};

// Angles of the tokens of a picture: those before the patches do not turn.
class Dinov3Places {
 public:
  explicit Dinov3Places(const Dinov3Config& c)
      : first_(1 + c.registers), shift_(c.shift), jitter_(c.jitter), rescale_(c.rescale) {
    const int64_t d = c.hidden_size / c.num_attention_heads;
    for (int64_t i = 0; i < d / 4; ++i)
      frequencies_.push_back(static_cast<float>(
          2 * std::numbers::pi * std::pow(c.rope_theta, -4 * static_cast<double>(i) / static_cast<double>(d))));
  }
  RotaryAngles operator()(Extents grid, ForwardContext& context) const {
    const auto pairs = static_cast<int64_t>(2 * frequencies_.size()), P = grid[0] * grid[1];
    const Tensor frequencies = Tensor::from(frequencies_, {pairs / 2});
    std::vector<float> middles;
    for (int64_t row = 0; row < grid[0]; ++row)
      for (int64_t column = 0; column < grid[1]; ++column)
        for (const auto& [at, extent] : {std::pair{row, grid[0]}, std::pair{column, grid[1]}})
          middles.push_back(static_cast<float>(2 * (static_cast<double>(at) + 0.5) / static_cast<double>(extent) - 1));
    const Tensor places = moved(Tensor::from(middles, {P, 2}), context);
    const Tensor angles = reshape(unsqueeze(places, 2) * frequencies, {1, P, 1, pairs});
    const Tensor all = concatenate({full({1, first_, 1, pairs}, 0, angles.dtype()), angles}, 1);
    return {cos(all), sin(all)};
  }

 private:
  // In training pictures lie a little elsewhere, and are larger or smaller than they are.
  Tensor moved(Tensor places, ForwardContext& context) const {
    if (!context.training) return places;
    const auto drawn = [&](const Shape& shape, double range) {  // from -range to range
      return (random_uniform(next_random_key(context), shape) * 2.0 - 1.0) * range;
    };
    if (shift_ > 0) places = places + drawn({1, 2}, shift_);
    if (jitter_ > 1) places = places * exp(drawn({1, 2}, std::log(jitter_)));
    if (rescale_ > 1) places = places * exp(drawn({1, 1}, std::log(rescale_)));
    return places;
  }

  int64_t first_;
  double shift_, jitter_, rescale_;
  std::vector<float> frequencies_;
};

class Dinov3Embeddings {
 public:
  Dinov3Embeddings(const Scope& scope, const Dinov3Config& c)
      : cls_token_(scope.parameter("cls_token", {1, 1, c.hidden_size}, Initial::normal(c.initializer_range))),
        mask_token_(scope.parameter("mask_token", {1, 1, c.hidden_size}, Initial::zeros())),
        patch_embeddings_(scope / "patch_embeddings", c.num_channels, c.hidden_size, c.patch_size,
                          c.initializer_range) {
    if (c.registers > 0)
      register_tokens_ =
          scope.parameter("register_tokens", {1, c.registers, c.hidden_size}, Initial::normal(c.initializer_range));
    else scope.derived("register_tokens");  // of no number
  }
  Tensor operator()(const Tensor& image, const Tensor& masked, const ForwardContext& context) const {  // -> [B, T, D]
    Tensor patches = patch_embeddings_(image, context);
    if (masked.defined()) patches = with_masked_patches(patches, masked, mask_token_->value);
    std::vector<Tensor> tokens;
    for (const auto& token : {cls_token_, register_tokens_})
      if (token)
        tokens.push_back(
            broadcast_to(cast(token->value, patches.dtype()), {patches.dim(0), token->value.dim(1), patches.dim(2)}));
    tokens.push_back(patches);
    return concatenate(tokens, 1);
  }

 private:
  std::shared_ptr<Parameter> cls_token_, mask_token_, register_tokens_;
  PatchEmbeddings patch_embeddings_;
};

class Dinov3MLP {
 public:
  Dinov3MLP(const Scope& scope, const Dinov3Config& c)
      : activation_(c.hidden_act),
        up_proj_(scope / "up_proj", c.hidden_size, c.intermediate_size, c.new_weights(c.mlp_bias)),
        down_proj_(scope / "down_proj", c.intermediate_size, c.hidden_size, c.new_weights(c.mlp_bias)) {
    if (c.use_gated_mlp)
      gate_proj_.emplace(scope / "gate_proj", c.hidden_size, c.intermediate_size, c.new_weights(c.mlp_bias));
  }
  Tensor operator()(const Tensor& x, ForwardContext& context) const {
    const Tensor up = up_proj_(x, context);
    return down_proj_(
        gate_proj_ ? activation(activation_, (*gate_proj_)(x, context)) * up : activation(activation_, up), context);
  }

 private:
  std::string activation_;
  Linear up_proj_, down_proj_;
  std::optional<Linear> gate_proj_;
};

class Dinov3Layer {
 public:
  Dinov3Layer(const Scope& scope, const Dinov3Config& c)
      : path_(scope.path()),
        heads_(c.num_attention_heads),
        norm1_(scope / "norm1", c.hidden_size, c.layer_norm_eps),
        q_proj_(scope / "attention" / "q_proj", c.hidden_size, c.hidden_size, c.new_weights(c.query_bias)),
        k_proj_(scope / "attention" / "k_proj", c.hidden_size, c.hidden_size, c.new_weights(c.key_bias)),
        v_proj_(scope / "attention" / "v_proj", c.hidden_size, c.hidden_size, c.new_weights(c.value_bias)),
        o_proj_(scope / "attention" / "o_proj", c.hidden_size, c.hidden_size, c.new_weights(c.proj_bias)),
        layer_scale1_(scale_of(scope / "layer_scale1", c)),
        norm2_(scope / "norm2", c.hidden_size, c.layer_norm_eps),
        mlp_(scope / "mlp", c),
        layer_scale2_(scale_of(scope / "layer_scale2", c)),
        dropout_(c.attention_dropout),
        drop_path_(c.drop_path_rate) {}

  Tensor operator()(const Tensor& x, const RotaryAngles& angles, ForwardContext& context) const {  // [B, T, D]
    Tensor attended;
    {
      const ModuleScope module(path_ + ".attention");
      const Tensor normed = norm1_(x, context);
      const int64_t d = x.dim(2) / heads_;
      const auto in_heads = [&](const Tensor& y) { return reshape(y, {x.dim(0), x.dim(1), heads_, d}); };
      const Tensor query = rotate(in_heads(q_proj_(normed, context)), angles),
                   key = rotate(in_heads(k_proj_(normed, context)), angles);
      attended = attention(query, key, in_heads(v_proj_(normed, context)), Tensor(),
                           {.scale = 1 / std::sqrt(static_cast<double>(d)), .causal = false}, dropout_, context);
    }
    const Tensor h = x + drop_path_(o_proj_(attended, context) * layer_scale1_->value, context);
    return h + drop_path_(mlp_(norm2_(h, context), context) * layer_scale2_->value, context);
  }

 private:
  static std::shared_ptr<Parameter> scale_of(const Scope& scope, const Dinov3Config& c) {
    return scope.parameter("lambda1", {c.hidden_size}, Initial::constant(c.layerscale_value));
  }

  std::string path_;
  int64_t heads_;
  LayerNorm norm1_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
  std::shared_ptr<Parameter> layer_scale1_;
  LayerNorm norm2_;
  Dinov3MLP mlp_;
  std::shared_ptr<Parameter> layer_scale2_;
  Dropout dropout_;
  DropPath drop_path_;
};

class Dinov3ViTModel : public Model {
 public:
  Dinov3ViTModel(const Config& config, const Scope& scope)
      : c_(config),
        embeddings_(scope / "embeddings", c_),
        places_(c_),
        norm_(scope / "norm", c_.hidden_size, c_.layer_norm_eps) {
    for (int64_t i = 0; i < c_.num_hidden_layers; ++i) layers_.emplace_back(scope / "layer" / i, c_);
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "bool_masked_pos"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const Tensor& image = image_input(inputs, c_.num_channels);
    Tensor x = embeddings_(image, inputs.find("bool_masked_pos"), context);
    const RotaryAngles angles = places_(patch_grid(size_of(image), c_.patch_size), context);
    std::vector<Tensor> states;
    if (context.output_hidden_states) states.push_back(x);
    for (const Dinov3Layer& layer : layers_) {
      if (context.gradient_checkpointing && context.training) {
        const auto region = [&](const std::vector<Tensor>& in) {
          return layer(in[0], RotaryAngles{in[1], in[2]}, context);
        };
        x = checkpoint(region, {x, angles.cosine, angles.sine});
      } else {
        x = layer(x, angles, context);
      }
      if (context.output_hidden_states) states.push_back(x);
    }
    const Tensor hidden = norm_(x, context);
    NamedTensors outputs{{"last_hidden_state", hidden}, {"pooler_output", squeeze(slice(hidden, 1, 0, 1), 1)}};
    add_hidden_states(outputs, states);
    return outputs;
  }

 private:
  Dinov3Config c_;
  Dinov3Embeddings embeddings_;
  Dinov3Places places_;
  LayerNorm norm_;
  std::vector<Dinov3Layer> layers_;
};

}  // namespace

static Family dinov3_vit_family() {
  return {.model_type = "dinov3_vit",
          .base_prefix = "model",
          .architectures = {{"DINOv3ViTModel",
                             body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                             make_model<Dinov3ViTModel>}},
          .inputs = {sized_pixels()},
          .processors = {.tokenizer = none,
                         .image_processor = "DINOv3ViT",
                         .positions = none,
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kDinov3VitFamily{dinov3_vit_family};

}  // namespace transom
