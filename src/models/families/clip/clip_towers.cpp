// SPDX-License-Identifier: Apache-2.0
#include "models/families/clip/clip_towers.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/nn/attention/attention.h"
#include "models/shared/encoder_heads.h"

namespace transom {
namespace {

std::vector<CLIPEncoderLayer> clip_layers(const Scope& scope, const CLIPTowerConfig& c) {
  std::vector<CLIPEncoderLayer> layers;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers.emplace_back(scope / "encoder" / "layers" / i, c);
  return layers;
}

// No token sees a later one, nor padding.
Tensor causal_text_mask(const EncoderInputs& in) {
  const int64_t T = in.length;
  const Tensor seen = cast(less_equal(iota({T, T}, 1), iota({T, T}, 0)), DType::kInt64);
  const Tensor mask = additive_mask(unsqueeze(seen, 0));  // [1, 1, T, T]
  return in.mask.defined() ? minimum(mask, in.mask) : mask;
}

// Each text should be most like its own image, and each image like its own text: logits [texts, images].
Tensor contrastive_loss(const Tensor& logits, const ForwardContext& context) {
  const auto one_way = [&](const Tensor& rows) { return mean_cross_entropy(rows, iota({rows.dim(0)}, 0), context); };
  return (one_way(logits) + one_way(permute(logits, {1, 0}))) * 0.5;
}

}  // namespace

Config clip_part(const Config& config, const std::string& part) {
  if (config.has(part + "_dict")) return config.get_object(part + "_dict");
  const std::string type = config.get_string("model_type", "");
  const bool is_of_one = type.ends_with("_text_model") || type.ends_with("_vision_model");
  return is_of_one && !config.has(part) ? config : config.get_object(part);
}

CLIPTowerConfig::CLIPTowerConfig(const Config& config, bool vision)
    : hidden_size(positive(config, "hidden_size", vision ? 768 : 512)),
      intermediate_size(config.get_int("intermediate_size", vision ? 3072 : 2048)),
      num_hidden_layers(config.get_int("num_hidden_layers", 12)),
      num_attention_heads(positive(config, "num_attention_heads", vision ? 12 : 8)),
      projection_dim(config.get_int("projection_dim", 512)),
      attention_dropout(config.get_float("attention_dropout", 0)),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-5)),
      factor(config.get_float("initializer_factor", 1)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      hidden_act(config.get_string("hidden_act", "quick_gelu")) {
  if (hidden_size % num_attention_heads != 0)
    fail("{}: hidden_size {} is not divisible by num_attention_heads {}", config.where(), hidden_size,
         num_attention_heads);
}

double CLIPTowerConfig::width_deviation() const { return factor / std::sqrt(static_cast<double>(hidden_size)); }
double CLIPTowerConfig::deep_deviation() const {
  return width_deviation() / std::sqrt(2.0 * static_cast<double>(std::max<int64_t>(num_hidden_layers, 1)));
}

CLIPTextConfig::CLIPTextConfig(const Config& config)
    : CLIPTowerConfig(config, false),
      vocab_size(config.get_int("vocab_size", 49408)),
      max_position_embeddings(config.get_int("max_position_embeddings", 77)),
      eos_token_id(config.get_int("eos_token_id", 49407)) {}

CLIPVisionConfig::CLIPVisionConfig(const Config& config)
    : CLIPTowerConfig(config, true),
      num_channels(config.get_int("num_channels", 3)),
      image_size(config.get_pair("image_size", 224)),
      patch_size(config.get_pair("patch_size", 32)) {}

CLIPEncoderLayer::CLIPEncoderLayer(const Scope& scope, const CLIPTowerConfig& c, bool norms_after)
    : path_(scope.path()),
      heads_(c.num_attention_heads),
      norms_after_(norms_after),
      activation_(c.hidden_act),
      layer_norm1_(scope / "layer_norm1", c.hidden_size, c.layer_norm_eps),
      q_proj_(scope / "self_attn" / "q_proj", c.hidden_size, c.hidden_size, {.deviation = c.deep_deviation()}),
      k_proj_(scope / "self_attn" / "k_proj", c.hidden_size, c.hidden_size, {.deviation = c.deep_deviation()}),
      v_proj_(scope / "self_attn" / "v_proj", c.hidden_size, c.hidden_size, {.deviation = c.deep_deviation()}),
      out_proj_(scope / "self_attn" / "out_proj", c.hidden_size, c.hidden_size, {.deviation = c.width_deviation()}),
      layer_norm2_(scope / "layer_norm2", c.hidden_size, c.layer_norm_eps),
      fc1_(scope / "mlp" / "fc1", c.hidden_size, c.intermediate_size,
           {.deviation = c.width_deviation() / std::sqrt(2.0)}),
      fc2_(scope / "mlp" / "fc2", c.intermediate_size, c.hidden_size, {.deviation = c.deep_deviation()}),
      attention_dropout_(c.attention_dropout) {}

Tensor CLIPEncoderLayer::operator()(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
  if (norms_after_) {
    const Tensor h = layer_norm1_(x + attended(x, mask, context), context);
    return layer_norm2_(h + transformed(h, context), context);
  }
  const Tensor h = x + attended(layer_norm1_(x, context), mask, context);
  return h + transformed(layer_norm2_(h, context), context);
}

Tensor CLIPEncoderLayer::attended(const Tensor& x, const Tensor& mask, ForwardContext& context) const {
  Tensor attended;
  {
    const ModuleScope module(path_ + ".self_attn");
    attended = multi_head_attention(q_proj_(x, context), k_proj_(x, context), v_proj_(x, context), heads_, mask,
                                    attention_dropout_, context);
  }
  return out_proj_(attended, context);
}

Tensor CLIPEncoderLayer::transformed(const Tensor& x, ForwardContext& context) const {
  return fc2_(activation(activation_, fc1_(x, context)), context);
}

CLIPTextTower::CLIPTextTower(const Scope& scope, const CLIPTextConfig& c, CLIPOptions options)
    : c_(c),
      end_is_highest_(options.end_is_highest || c.eos_token_id == 2),
      token_embedding_(scope / "embeddings" / "token_embedding", c.vocab_size, c.hidden_size, c.factor * 0.02),
      position_embedding_(scope / "embeddings" / "position_embedding", c.max_position_embeddings, c.hidden_size,
                          c.factor * 0.02),
      layers_(clip_layers(scope, c)),
      final_layer_norm_(scope / "final_layer_norm", c.hidden_size, c.layer_norm_eps) {}

CLIPTowerOutput CLIPTextTower::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  const EncoderInputs in = encoder_inputs(inputs, c_.max_position_embeddings);
  if (!in.input_ids.defined()) fail("CLIP takes input_ids: the end-of-text token is found by its id");
  const Tensor x = token_embedding_(in.input_ids, context) + position_embedding_(in.position_ids, context);
  EncoderOutput encoded = through_layers(layers_, x, causal_text_mask(in), context);
  const Tensor hidden = final_layer_norm_(encoded.last_hidden_state, context);
  return {hidden, at_end_of_text(hidden, in.input_ids), std::move(encoded.hidden_states)};
}

// The state at the first end-of-text token. Configurations of before 2023 say 2 for its id, which is not: there it is
// the highest id of the text.
Tensor CLIPTextTower::at_end_of_text(const Tensor& hidden, const Tensor& ids) const {
  const Tensor marks =
      end_is_highest_
          ? ids
          : cast(equal(ids, full(ids.shape(), static_cast<double>(c_.eos_token_id), ids.dtype())), DType::kInt64);
  const Tensor place = reshape(arg_max(marks, 1), {hidden.dim(0), 1, 1});
  return squeeze(take_along_axis(hidden, broadcast_to(place, {hidden.dim(0), 1, hidden.dim(2)}), 1), 1);
}

CLIPVisionTower::CLIPVisionTower(const Scope& scope, const CLIPVisionConfig& c, CLIPOptions options)
    : c_(c),
      any_size_(options.any_size),
      grid_(patch_grid(c.image_size, c.patch_size)),
      class_embedding_(
          scope.parameter("embeddings.class_embedding", {c.hidden_size}, Initial::normal(c.width_deviation()))),
      patch_embedding_(scope / "embeddings" / "patch_embedding", c.num_channels, c.hidden_size, c.patch_size,
                       c.initializer_range * c.factor, false),
      position_embedding_((scope / "embeddings" / "position_embedding")
                              .parameter("weight", {1 + grid_[0] * grid_[1], c.hidden_size},
                                         Initial::normal(c.initializer_range * c.factor))),
      pre_layrnorm_(scope / options.first_norm, c.hidden_size, c.layer_norm_eps),
      layers_(clip_layers(scope, c)),
      post_layernorm_(scope / "post_layernorm", c.hidden_size, c.layer_norm_eps) {}

CLIPTowerOutput CLIPVisionTower::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  const Tensor& image = image_input(inputs, c_.num_channels);
  const Tensor patches = patch_embedding_(image, context);
  const int64_t B = patches.dim(0), D = patches.dim(2);
  const Tensor first = broadcast_to(reshape(cast(class_embedding_->value, patches.dtype()), {1, 1, D}), {B, 1, D});
  const Tensor x = pre_layrnorm_(concatenate({first, patches}, 1) + positions(size_of(image), context), context);
  EncoderOutput encoded = through_layers(layers_, x, Tensor(), context);
  const Tensor& hidden = encoded.last_hidden_state;
  return {hidden, post_layernorm_(squeeze(slice(hidden, 1, 0, 1), 1), context), std::move(encoded.hidden_states)};
}

Tensor CLIPVisionTower::positions(Extents size, const ForwardContext& context) const {
  if (!context.interpolate_pos_encoding && !any_size_ && size != c_.image_size)
    fail("pixel_values: expected images of {}x{}, found {}x{}; interpolate_pos_encoding admits other sizes",
         c_.image_size[0], c_.image_size[1], size[0], size[1]);
  const Extents grid = patch_grid(size, c_.patch_size);
  const Tensor all = unsqueeze(position_embedding_->value, 0);
  if (size == c_.image_size || (grid[0] * grid[1] == grid_[0] * grid_[1] && size[0] == size[1])) return all;
  return interpolated_positions(all, 1, grid, context.computing);
}

const std::vector<std::string>& clip_text_names() {
  static const std::vector<std::string> names = {"input_ids", "attention_mask", "position_ids"};
  return names;
}

NamedTensors clip_text_inputs(const NamedTensors& inputs) {
  NamedTensors text;
  for (const std::string& name : clip_text_names())
    if (inputs.find(name).defined()) text.set(name, inputs.find(name));
  return text;
}

Tensor to_unit_length(const Tensor& x) { return x / sqrt(reduce_sum(x * x, {-1}, true)); }

CLIPTowers::CLIPTowers(const Config& config, const Scope& scope, CLIPOptions options)
    : text_config(with_defaults(clip_part(config, "text_config"), options.text_defaults)),
      vision_config(with_defaults(clip_part(config, "vision_config"), options.vision_defaults)),
      text_model(scope / "text_model", text_config, options),
      vision_model(scope / "vision_model", vision_config, options),
      text_projection(scope / "text_projection", text_config.hidden_size, config.get_int("projection_dim", 512),
                      text_config.projection()),
      visual_projection(scope / "visual_projection", vision_config.hidden_size, config.get_int("projection_dim", 512),
                        vision_config.projection()),
      logit_scale_(
          scope.parameter("logit_scale", {}, Initial::constant(config.get_float("logit_scale_init_value", 2.6592)))) {}

CLIPTowers::Agreement CLIPTowers::operator()(const NamedTensors& inputs, ForwardContext& context) const {
  Agreement made;
  made.image = vision_model(inputs, context);
  made.image_embeds = to_unit_length(visual_projection(made.image.pooler_output, context));
  made.text = text_model(clip_text_inputs(inputs), context);
  made.text_embeds = to_unit_length(text_projection(made.text.pooler_output, context));
  made.logits_per_text = logits_of_agreement(made.text_embeds, made.image_embeds, logit_scale_->value, context);
  return made;
}

NamedTensors CLIPTowers::outputs(const NamedTensors& inputs, ForwardContext& context) const {
  const Agreement made = (*this)(inputs, context);
  return agreement_outputs(made.text_embeds, made.image_embeds, logit_scale_->value, context);
}

Tensor logits_of_agreement(const Tensor& text_embeds, const Tensor& image_embeds, const Tensor& logit_scale,
                           const ForwardContext& context) {
  return dot_general(text_embeds, image_embeds, {{}, {}, {1}, {1}}, context.computing) * exp(logit_scale);
}

NamedTensors agreement_outputs(const Tensor& text_embeds, const Tensor& image_embeds, const Tensor& logit_scale,
                               const ForwardContext& context) {
  const Tensor per_text = logits_of_agreement(text_embeds, image_embeds, logit_scale, context);
  return with_loss(context.return_loss ? contrastive_loss(per_text, context) : Tensor(),
                   {{"logits_per_image", permute(per_text, {1, 0})},
                    {"logits_per_text", per_text},
                    {"text_embeds", text_embeds},
                    {"image_embeds", image_embeds}});
}

FamilyHead clip_head() {
  return {.task = HeadTask::kContrastive,
          .pipelines = {"zero-shot-image-classification"},
          .labels = HeadLabels::kPairs,
          .modules = {"text_projection", "visual_projection", "logit_scale"},
          .vocabulary = none,
          .outputs = {"logits_per_image", "logits_per_text", "text_embeds", "image_embeds"}};
}

// optimum-onnx exports the tower of texts without a mask: what is behind the end of a text is not seen before it.
FamilyInputs clip_text_record_inputs() {
  FamilyInputs inputs = placed_text_inputs();
  inputs[0].table.fields = {"text_config.vocab_size"};
  inputs[1].exported = FamilyInput::Export::kNever;
  return inputs;
}
FamilyInputs clip_image_record_inputs() { return {sized_pixels("vision_config")}; }
FamilyInputs clip_record_inputs() {
  FamilyInputs inputs = clip_text_record_inputs();
  inputs[1].exported = FamilyInput::Export::kAlways;
  inputs.insert(inputs.begin() + 1, sized_pixels("vision_config"));
  return inputs;
}

}  // namespace transom
