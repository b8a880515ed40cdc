// SPDX-License-Identifier: Apache-2.0
#include "models/families/mllama/mllama_tower.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/nn/attention/attention.h"
#include "models/nn/weight.h"
#include "transom/gradients.h"

namespace transom {
namespace {

constexpr int64_t kWhole = 8;  // the places of a tile are filled up to a multiple of so many

int64_t filled(int64_t places) { return (places + kWhole - 1) / kWhole * kWhole; }

// How many forms a picture may have: those of four tiles, or as many as are listed.
int64_t forms_of(const Config& config) {
  constexpr const char* kField = "supported_aspect_ratios";
  constexpr int64_t kOfFourTiles = 8, kMost = 1 << 12;
  if (!config.has(kField)) return kOfFourTiles;
  const Json& listed = json_of(config)[kField];
  config.get_json(kField);
  if (!listed.is_array() || listed.empty() || static_cast<int64_t>(listed.size()) > kMost)
    fail("{}: {}: expected a list of 1 to {} forms, found {}", config.where(), kField, kMost,
         quoted(dump_json(listed), 60));
  return static_cast<int64_t>(listed.size());
}

Linear::Options without_bias(const MllamaVisionConfig& c) { return {.bias = false, .deviation = c.initializer_range}; }

std::shared_ptr<Parameter> gate_of(const Scope& scope, const char* name, const MllamaVisionConfig& c, bool gated) {
  return gated ? scope.parameter(name, {1}, Initial::normal(c.initializer_range)) : nullptr;
}

}  // namespace

MllamaVisionConfig::MllamaVisionConfig(const Config& config)
    : hidden_size(positive(config, "hidden_size", 1280, 1 << 16)),
      intermediate_size(positive(config, "intermediate_size", 5120)),
      num_hidden_layers(positive(config, "num_hidden_layers", 32)),
      num_global_layers(config.get_int("num_global_layers", 8)),
      attention_heads(positive(config, "attention_heads", config.get_int("num_attention_heads", 16))),
      num_channels(positive(config, "num_channels", 3, 1 << 10)),
      image_size(positive(config, "image_size", 448, 1 << 14)),
      patch_size(positive(config, "patch_size", 14, image_size)),
      max_num_tiles(positive(config, "max_num_tiles", 4, 64)),
      forms(forms_of(config)),
      places((image_size / patch_size) * (image_size / patch_size) + 1),
      kept(config.get_ints("intermediate_layers_indices", {3, 7, 15, 23, 30})),
      norm_eps(config.get_float("norm_eps", 1e-5)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      hidden_act(config.get_string("hidden_act", "gelu")) {
  if (hidden_size % attention_heads != 0)
    fail("{}: hidden_size {} is not divisible by attention_heads {}", config.where(), hidden_size, attention_heads);
  if (num_global_layers < 0)
    fail("{}: num_global_layers: expected 0 or more, found {}", config.where(), num_global_layers);
  for (int64_t& layer : kept) {
    const int64_t given = layer;
    if (layer < 0) layer += num_hidden_layers;
    if (layer < 0 || layer >= num_hidden_layers)
      fail("{}: intermediate_layers_indices: {} is none of {} layers", config.where(), given, num_hidden_layers);
  }
  if (const int64_t said = config.get_int("vision_output_dim", 7680); said != width())
    fail("{}: vision_output_dim: expected {}, the last states and those of {} layers of {}, found {}", config.where(),
         width(), kept.size(), hidden_size, said);
}

MllamaVisionLayer::MllamaVisionLayer(const Scope& scope, const MllamaVisionConfig& c, bool gated)
    : path_(scope.path()),
      heads_(c.attention_heads),
      activation_(c.hidden_act),
      gate_attn_(gate_of(scope, "gate_attn", c, gated)),
      gate_ffn_(gate_of(scope, "gate_ffn", c, gated)),
      q_proj_(scope / "self_attn" / "q_proj", c.hidden_size, c.hidden_size, without_bias(c)),
      k_proj_(scope / "self_attn" / "k_proj", c.hidden_size, c.hidden_size, without_bias(c)),
      v_proj_(scope / "self_attn" / "v_proj", c.hidden_size, c.hidden_size, without_bias(c)),
      o_proj_(scope / "self_attn" / "o_proj", c.hidden_size, c.hidden_size, without_bias(c)),
      fc1_(scope / "mlp" / "fc1", c.hidden_size, c.intermediate_size, {.deviation = c.initializer_range}),
      fc2_(scope / "mlp" / "fc2", c.intermediate_size, c.hidden_size, {.deviation = c.initializer_range}),
      input_layernorm_(scope / "input_layernorm", c.hidden_size, c.norm_eps),
      post_attention_layernorm_(scope / "post_attention_layernorm", c.hidden_size, c.norm_eps) {}

Tensor MllamaVisionLayer::gated(const std::shared_ptr<Parameter>& gate, const Tensor& x) const {
  return gate ? tanh(gate->value) * x : x;
}

Tensor MllamaVisionLayer::operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
  static const Dropout kNone(0);
  Tensor attended;
  {
    const ModuleScope module(path_ + ".self_attn");
    const Tensor normed = input_layernorm_(x, context);
    attended = multi_head_attention(q_proj_(normed, context), k_proj_(normed, context), v_proj_(normed, context),
                                    heads_, mask, kNone, context);
  }
  const Tensor h = x + gated(gate_attn_, o_proj_(attended, context));
  const Tensor fed = fc1_(post_attention_layernorm_(h, context), context);
  return h + gated(gate_ffn_, fc2_(activation(activation_, fed), context));
}

MllamaTower::TileVectors::TileVectors(const Scope& scope, const MllamaVisionConfig& c)
    : gate(scope.parameter("gate", {1}, Initial::zeros())),
      embedding(scope / "embedding", c.forms + 1, c.max_num_tiles * c.hidden_size, c.initializer_range) {}

Tensor MllamaTower::TileVectors::operator()(const Tensor& x, const Tensor& ids, const ForwardContext& context) const {
  return x + reshape(embedding(ids, context), {x.dim(0), x.dim(1), 1, x.dim(3)}) * tanh(gate->value);
}

MllamaTower::MllamaTower(const Scope& scope, const MllamaVisionConfig& c)
    : c_(c),
      class_embedding_(scope.parameter("class_embedding", {c.hidden_size}, Initial::normal(c.initializer_range))),
      patch_embedding_(scope / "patch_embedding", c.num_channels, c.hidden_size, {c.patch_size, c.patch_size},
                       c.initializer_range, false),
      positions_gate_((scope / "gated_positional_embedding").parameter("gate", {1}, Initial::zeros())),
      positions_((scope / "gated_positional_embedding")
                     .parameter("embedding", {c.places, c.hidden_size}, Initial::normal(c.initializer_range))),
      tile_positions_(scope / "gated_positional_embedding" / "tile_embedding", c.forms + 1,
                      c.max_num_tiles * c.places * c.hidden_size, c.initializer_range),
      before_(scope / "pre_tile_positional_embedding", c),
      behind_(scope / "post_tile_positional_embedding", c),
      layernorm_pre_(scope / "layernorm_pre", c.hidden_size, 1e-5),
      layernorm_post_(scope / "layernorm_post", c.hidden_size, 1e-5) {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i)
    layers_.emplace_back(scope / "transformer" / "layers" / i, c, false);
  for (int64_t i = 0; i < c.num_global_layers; ++i)
    global_layers_.emplace_back(scope / "global_transformer" / "layers" / i, c, true);
}

Tensor MllamaTower::with_positions(const Tensor& x, const Tensor& ids, const ForwardContext& context) const {
  const int64_t N = x.dim(0), t = x.dim(1), P = x.dim(2), D = x.dim(3);
  const Tensor gate = tanh(positions_gate_->value);
  const Tensor own = (full({1}, 1, gate.dtype()) - gate) * positions_->value;
  return x + reshape(own, {1, 1, P, D}) + reshape(tile_positions_(ids, context), {N, t, P, D}) * gate;
}

// Of [N, t], additive [N, 1, L, L]: what fills up and tiles that are not there do not see each other. The others see
// them, and they the others, as in the checkpoints.
Tensor MllamaTower::bias_of(const Tensor& mask, int64_t length) const {
  const int64_t N = mask.dim(0), t = mask.dim(1), each = length / t;
  const Shape places{N, t, each};
  const Tensor tiles = broadcast_to(reshape(not_equal(mask, zeros(mask.shape(), mask.dtype())), {N, t, 1}), places);
  const Tensor within = less(iota(places, 2), full(places, static_cast<double>(c_.places), DType::kInt64));
  const Tensor there = reshape(logical_and(tiles, within), {N, length});
  const Shape all{N, 1, length, length};
  return additive_where(logical_or(broadcast_to(reshape(there, {N, 1, length, 1}), all),
                                   broadcast_to(reshape(there, {N, 1, 1, length}), all)));
}

Tensor MllamaTower::through(const std::vector<MllamaVisionLayer>& layers, Tensor x, const Tensor& mask,
                            std::vector<Tensor>* kept, ForwardContext& context) const {
  for (const MllamaVisionLayer& layer : layers) {
    if (context.gradient_checkpointing && context.training)
      x = checkpoint([&](const std::vector<Tensor>& in) { return layer(in[0], mask, context); }, {x});
    else x = layer(x, mask, context);
    if (kept) kept->push_back(x);
  }
  return x;
}

Tensor MllamaTower::operator()(const Tensor& pixels, const Tensor& ids, const Tensor& mask,
                               ForwardContext& context) const {
  const int64_t N = pixels.dim(0), t = pixels.dim(1), P = c_.places, D = c_.hidden_size, whole = filled(P);
  const Tensor patches = reshape(patch_embedding_(flatten(pixels, 0, 1), context), {N, t, P - 1, D});
  Tensor x = before_(patches, ids, context);
  const Tensor first = broadcast_to(reshape(cast(class_embedding_->value, x.dtype()), {1, 1, 1, D}), {N, t, 1, D});
  x = layernorm_pre_(with_positions(concatenate({first, x}, 2), ids, context), context);
  if (whole > P) x = pad(x, {0, 0, 0, 0}, {0, 0, whole - P, 0});
  const Tensor bias = bias_of(mask, t * whole);
  std::vector<Tensor> between;
  x = through(layers_, reshape(x, {N, t * whole, D}), bias, &between, context);
  x = behind_(reshape(layernorm_post_(x, context), {N, t, whole, D}), ids, context);
  x = through(global_layers_, reshape(x, {N, t * whole, D}), bias, nullptr, context);
  // Of states between, the numbers of one place lie side by side.
  std::vector<Tensor> states{reshape(x, {N, t * whole, D})};
  if (!c_.kept.empty()) {
    std::vector<Tensor> chosen;
    for (const int64_t layer : c_.kept) chosen.push_back(unsqueeze(between[static_cast<size_t>(layer)], 3));
    states.push_back(reshape(chosen.size() == 1 ? chosen[0] : concatenate(chosen, 3),
                             {N, t * whole, D * static_cast<int64_t>(chosen.size())}));
  }
  const Tensor all = states.size() == 1 ? states[0] : concatenate(states, 2);
  return slice(reshape(all, {N, t, whole, c_.width()}), 2, 0, P);
}

}  // namespace transom
