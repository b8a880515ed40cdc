// SPDX-License-Identifier: Apache-2.0
#include "models/families/siglip/siglip_towers.h"

#include <cmath>

#include "base/error.h"
#include "models/nn/attention/attention.h"
#include "models/nn/weight.h"
#include "models/shared/encoder_body.h"

namespace transom {
namespace {

double siglip_deviation(int64_t width) { return 1 / std::sqrt(static_cast<double>(width)); }

Linear::Options siglip_linear(int64_t in, int64_t out) {
  return {.deviation = std::sqrt(2.0 / static_cast<double>(in + out))};  // of Glorot's uniform values
}

}  // namespace

SiglipTowerConfig::SiglipTowerConfig(const Config& config)
    : hidden_size(positive(config, "hidden_size", 768)),
      intermediate_size(positive(config, "intermediate_size", 3072)),
      num_hidden_layers(config.get_int("num_hidden_layers", 12)),
      num_attention_heads(positive(config, "num_attention_heads", 12)),
      attention_dropout(config.get_float("attention_dropout", 0)),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-6)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      hidden_act(config.get_string("hidden_act", "gelu_pytorch_tanh")) {
  if (hidden_size % num_attention_heads != 0)
    fail("{}: hidden_size {} is not divisible by num_attention_heads {}", config.where(), hidden_size,
         num_attention_heads);
}

SiglipTextConfig::SiglipTextConfig(const Config& config)
    : SiglipTowerConfig(config),
      vocab_size(positive(config, "vocab_size", 32000)),
      max_position_embeddings(positive(config, "max_position_embeddings", 64)),
      projection_size(positive(config, "projection_size", hidden_size)) {}

SiglipVisionConfig::SiglipVisionConfig(const Config& config, bool flexible)
    : SiglipTowerConfig(config),
      flexible(flexible),
      num_channels(positive(config, "num_channels", 3, 1 << 10)),
      patch_size(config.get_pair("patch_size", 16)),
      has_head(config.get_bool("vision_use_head", true)) {
  if (flexible) num_patches = positive(config, "num_patches", 256, 1 << 24);
  else image_size = config.get_pair("image_size", 224);
  constexpr int64_t kMostOfPatch = 1 << 12;
  for (const int64_t extent : patch_size)
    if (extent < 1 || extent > kMostOfPatch)
      fail("{}: patch_size: expected numbers from 1 to {}, found {}", config.where(), kMostOfPatch, extent);
}

SiglipLayer::SiglipLayer(const Scope& scope, const SiglipTowerConfig& c)
    : path_(scope.path()),
      heads_(c.num_attention_heads),
      activation_(c.hidden_act),
      layer_norm1_(scope / "layer_norm1", c.hidden_size, c.layer_norm_eps),
      q_proj_(scope / "self_attn" / "q_proj", c.hidden_size, c.hidden_size,
              siglip_linear(c.hidden_size, c.hidden_size)),
      k_proj_(scope / "self_attn" / "k_proj", c.hidden_size, c.hidden_size,
              siglip_linear(c.hidden_size, c.hidden_size)),
      v_proj_(scope / "self_attn" / "v_proj", c.hidden_size, c.hidden_size,
              siglip_linear(c.hidden_size, c.hidden_size)),
      out_proj_(scope / "self_attn" / "out_proj", c.hidden_size, c.hidden_size,
                siglip_linear(c.hidden_size, c.hidden_size)),
      layer_norm2_(scope / "layer_norm2", c.hidden_size, c.layer_norm_eps),
      fc1_(scope / "mlp" / "fc1", c.hidden_size, c.intermediate_size,
           siglip_linear(c.hidden_size, c.intermediate_size)),
      fc2_(scope / "mlp" / "fc2", c.intermediate_size, c.hidden_size,
           siglip_linear(c.hidden_size, c.intermediate_size)),
      attention_dropout_(c.attention_dropout) {}

Tensor SiglipLayer::operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
  Tensor attended;
  {
    const ModuleScope module(path_ + ".self_attn");
    const Tensor normed = layer_norm1_(x, context);
    attended = multi_head_attention(q_proj_(normed, context), k_proj_(normed, context), v_proj_(normed, context),
                                    heads_, mask, attention_dropout_, context);
  }
  const Tensor h = x + out_proj_(attended, context);
  return h + fc2_(activation(activation_, fc1_(layer_norm2_(h, context), context)), context);
}

std::vector<SiglipLayer> siglip_layers(const Scope& scope, const SiglipTowerConfig& c) {
  std::vector<SiglipLayer> layers;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers.emplace_back(scope / "encoder" / "layers" / i, c);
  return layers;
}

SiglipPoolingHead::SiglipPoolingHead(const Scope& scope, const SiglipTowerConfig& c)
    : heads_(c.num_attention_heads),
      activation_(c.hidden_act),
      probe_(scope.parameter("probe", {1, 1, c.hidden_size}, Initial::normal(siglip_deviation(c.hidden_size)))),
      in_weight_((scope / "attention")
                     .parameter("in_proj_weight", {3 * c.hidden_size, c.hidden_size},
                                Initial::normal(siglip_deviation(2 * c.hidden_size)))),
      in_bias_((scope / "attention").parameter("in_proj_bias", {3 * c.hidden_size}, Initial::zeros())),
      out_proj_(scope / "attention" / "out_proj", c.hidden_size, c.hidden_size,
                {.deviation = siglip_deviation(c.hidden_size)}),
      layernorm_(scope / "layernorm", c.hidden_size, c.layer_norm_eps),
      fc1_(scope / "mlp" / "fc1", c.hidden_size, c.intermediate_size,
           siglip_linear(c.hidden_size, c.intermediate_size)),
      fc2_(scope / "mlp" / "fc2", c.intermediate_size, c.hidden_size,
           siglip_linear(c.hidden_size, c.intermediate_size)) {}

Tensor SiglipPoolingHead::operator()(const Tensor& patches, const Tensor& mask, ForwardContext& context) const {
  const int64_t B = patches.dim(0), D = patches.dim(2);
  // Of the joint weight [3 D, D] the rows of queries, of keys and of values.
  const auto projected = [&](const Tensor& x, int64_t part) {
    return linear(x, slice(in_weight_->value, 0, part * D, (part + 1) * D),
                  slice(in_bias_->value, 0, part * D, (part + 1) * D), context.computing);
  };
  const Tensor query = broadcast_to(cast(probe_->value, patches.dtype()), {B, 1, D});
  const Tensor attended = multi_head_attention(projected(query, 0), projected(patches, 1), projected(patches, 2),
                                               heads_, mask, Dropout(0), context);
  const Tensor h = out_proj_(attended, context);
  const Tensor pooled = h + fc2_(activation(activation_, fc1_(layernorm_(h, context), context)), context);
  return squeeze(pooled, 1);
}

SiglipTextTower::SiglipTextTower(const Scope& scope, const SiglipTextConfig& c)
    : max_position_embeddings_(c.max_position_embeddings),
      token_embedding_(scope / "embeddings" / "token_embedding", c.vocab_size, c.hidden_size,
                       siglip_deviation(c.hidden_size)),
      position_embedding_(scope / "embeddings" / "position_embedding", c.max_position_embeddings, c.hidden_size,
                          siglip_deviation(c.hidden_size)),
      layers_(siglip_layers(scope, c)),
      final_layer_norm_(scope / "final_layer_norm", c.hidden_size, c.layer_norm_eps),
      head_(scope / "head", c.hidden_size, c.projection_size, {.deviation = siglip_deviation(c.hidden_size)}) {}

SiglipTowerOutput SiglipTextTower::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  const EncoderInputs in = encoder_inputs(inputs, max_position_embeddings_);
  if (!in.input_ids.defined()) fail("SigLIP takes input_ids, found inputs_embeds");
  const Tensor x = token_embedding_(in.input_ids, context) + position_embedding_(in.position_ids, context);
  EncoderOutput encoded = through_layers(layers_, x, in.mask, context);
  const Tensor hidden = final_layer_norm_(encoded.last_hidden_state, context);
  // Texts are filled up to one length, whose last place reads for all of them.
  const Tensor last = squeeze(slice(hidden, 1, in.length - 1, in.length), 1);
  return {hidden, head_(last, context), std::move(encoded.hidden_states)};
}

SiglipVisionTower::SiglipVisionTower(const Scope& scope, const SiglipVisionConfig& c)
    : c_(c),
      patch_embedding_(c.flexible ? std::nullopt
                                  : std::optional<PatchEmbeddings>(
                                        std::in_place, scope / "embeddings" / "patch_embedding", c.num_channels,
                                        c.hidden_size, c.patch_size, c.initializer_range)),
      patches_(c.flexible ? std::optional<SiglipPatches>(std::in_place, scope / "embeddings", c) : std::nullopt),
      layers_(siglip_layers(scope, c)),
      post_layernorm_(scope / "post_layernorm", c.hidden_size, c.layer_norm_eps) {
  if (!c.flexible) {
    const Extents grid = patch_grid(c.image_size, c.patch_size);
    position_embedding_ =
        (scope / "embeddings" / "position_embedding")
            .parameter("weight", {grid[0] * grid[1], c.hidden_size}, Initial::normal(siglip_deviation(c.hidden_size)));
  }
  if (c.has_head) head_ = std::make_unique<SiglipPoolingHead>(scope / "head", c);
}

SiglipTowerOutput SiglipVisionTower::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  const Tensor mask = c_.flexible ? additive_mask(inputs.find("pixel_attention_mask")) : Tensor();
  EncoderOutput encoded = through_layers(layers_, embedded(inputs, context), mask, context);
  const Tensor hidden = post_layernorm_(encoded.last_hidden_state, context);
  return {hidden, head_ ? (*head_)(hidden, mask, context) : Tensor(), std::move(encoded.hidden_states)};
}

std::vector<std::string> SiglipVisionTower::input_names(bool flexible) {
  return flexible ? SiglipPatches::input_names() : std::vector<std::string>{"pixel_values"};
}

Tensor SiglipVisionTower::embedded(const NamedTensors& inputs, ForwardContext& context) const {
  if (patches_) return (*patches_)(inputs, context);
  const Tensor& image = image_input(inputs, c_.num_channels);
  return (*patch_embedding_)(image, context) + positions(size_of(image), context);
}

Tensor SiglipVisionTower::positions(Extents size, const ForwardContext& context) const {
  if (!context.interpolate_pos_encoding && size != c_.image_size)
    fail("pixel_values: expected images of {}x{}, found {}x{}; interpolate_pos_encoding admits other sizes",
         c_.image_size[0], c_.image_size[1], size[0], size[1]);
  const Tensor all = unsqueeze(position_embedding_->value, 0);
  const Extents grid = patch_grid(size, c_.patch_size);
  if (size == c_.image_size || (grid[0] * grid[1] == all.dim(1) && size[0] == size[1])) return all;
  return interpolated_positions(all, 0, grid, context.computing);
}

}  // namespace transom
