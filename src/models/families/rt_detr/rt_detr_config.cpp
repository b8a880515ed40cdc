// SPDX-License-Identifier: Apache-2.0
#include "models/families/rt_detr/rt_detr_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

constexpr int64_t kRTDetrMostWidth = 1 << 20, kRTDetrMostLayers = 1000, kRTDetrMostLevels = 16;

VarifocalWeights rt_detr_weights(const Config& config) {
  return {.boxes = {.class_cost = config.get_float("matcher_class_cost", 2),
                    .bbox_cost = config.get_float("matcher_bbox_cost", 5),
                    .giou_cost = config.get_float("matcher_giou_cost", 2),
                    .bbox = config.get_float("weight_loss_bbox", 5),
                    .giou = config.get_float("weight_loss_giou", 2)},
          .varifocal = config.get_float("weight_loss_vfl", 1),
          .alpha = config.get_float("focal_loss_alpha", 0.75),
          .gamma = config.get_float("focal_loss_gamma", 2),
          .focal_costs = config.get_bool("use_focal_loss", true),
          .cost_alpha = config.get_float("matcher_alpha", 0.25),
          .cost_gamma = config.get_float("matcher_gamma", 2)};
}

double rt_detr_first_bias(const Config& config, int64_t classes) {
  const double chance = config.get_float("initializer_bias_prior_prob", 1 / static_cast<double>(classes + 1));
  if (!(chance > 0 && chance < 1))
    fail("{}: initializer_bias_prior_prob: expected a number between 0 and 1, found {}", config.where(), chance);
  return -std::log((1 - chance) / chance);
}

void expect_rt_detr_heads(const Config& config, int64_t width, int64_t heads, std::string_view name) {
  if (width % heads != 0) fail("{}: {} attention heads do not divide {}, {}", config.where(), heads, name, width);
}

// Of the encoder, and what the decoder reads of it.
void expect_rt_detr_maps(const Config& config, const RTDetrConfig& c) {
  if (c.levels < 1 || c.levels > kRTDetrMostLevels)
    fail("{}: encoder_in_channels: expected from 1 to {} numbers, found {}", config.where(), kRTDetrMostLevels,
         c.levels);
  if (c.encoder_layers < 0 || c.encoder_layers > kRTDetrMostLayers)
    fail("{}: encoder_layers: expected a number from 0 to {}, found {}", config.where(), kRTDetrMostLayers,
         c.encoder_layers);
  for (const int64_t level : c.encode_proj_layers)
    if (level < 0 || level >= c.levels)
      fail("{}: encode_proj_layers: expected numbers from 0 to {}, found {}", config.where(), c.levels - 1, level);
  expect_rt_detr_heads(config, c.encoder_hidden_dim, c.encoder_attention_heads, "encoder_hidden_dim");
  expect_rt_detr_heads(config, c.d_model, c.decoder_attention_heads, "d_model");
  if (c.encoder_hidden_dim % 4 != 0)
    fail("{}: encoder_hidden_dim: expected a multiple of 4, found {}", config.where(), c.encoder_hidden_dim);
  const std::vector<int64_t> read = config.get_ints("decoder_in_channels", {256, 256, 256});
  if (static_cast<int64_t>(read.size()) != c.levels || c.levels > c.num_feature_levels ||
      std::any_of(read.begin(), read.end(), [&](int64_t width) { return width != c.encoder_hidden_dim; }))
    fail("{}: decoder_in_channels: expected the width {} of the {} maps that the encoder gives, of at most {}",
         config.where(), c.encoder_hidden_dim, c.levels, c.num_feature_levels);
}

void expect_rt_detr_second(const Config& config, int64_t levels) {
  if (const int64_t found = positive(config, "decoder_n_levels", 3); found != levels)
    fail("{}: decoder_n_levels: expected num_feature_levels, {}, found {}", config.where(), levels, found);
  const std::string method = config.get_string("decoder_method", "default");
  if (method != "default" && method != "discrete")
    fail("{}: decoder_method: expected default or discrete, found {}", config.where(), quoted(method));
}

}  // namespace

RTDetrConfig::RTDetrConfig(const Config& config, bool second)
    : second(second),
      num_labels(number_of_labels(config)),
      num_queries(positive(config, "num_queries", 300, kRTDetrMostWidth)),
      initializer_range(config.get_float("initializer_range", 0.01)),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-5)),
      batch_norm_eps(config.get_float("batch_norm_eps", 1e-5)),
      first_bias(rt_detr_first_bias(config, num_labels)),
      encoder_hidden_dim(positive(config, "encoder_hidden_dim", 256, kRTDetrMostWidth)),
      encoder_layers(config.get_int("encoder_layers", 1)),
      encoder_attention_heads(positive(config, "encoder_attention_heads", 8)),
      encoder_ffn_dim(positive(config, "encoder_ffn_dim", 1024, kRTDetrMostWidth)),
      levels(static_cast<int64_t>(config.get_ints("encoder_in_channels", {512, 1024, 2048}).size())),
      encode_proj_layers(config.get_ints("encode_proj_layers", {2})),
      temperature(config.get_float("positional_encoding_temperature", 10000)),
      has_eval_size(config.has("eval_size")),
      encoder_activation_function(config.get_string("encoder_activation_function", "gelu")),
      activation_function(config.get_string("activation_function", "silu")),
      d_model(positive(config, "d_model", 256, kRTDetrMostWidth)),
      decoder_layers(positive(config, "decoder_layers", 6, kRTDetrMostLayers)),
      decoder_attention_heads(positive(config, "decoder_attention_heads", 8)),
      decoder_ffn_dim(positive(config, "decoder_ffn_dim", 1024, kRTDetrMostWidth)),
      num_feature_levels(positive(config, "num_feature_levels", 3, kRTDetrMostLevels)),
      decoder_n_points(positive(config, "decoder_n_points", 4, 1024)),
      decoder_activation_function(config.get_string("decoder_activation_function", "relu")),
      offset_scale(second ? config.get_float("decoder_offset_scale", 0.5) : 0.5),
      nearest_places(second && config.get_string("decoder_method", "default") == "discrete"),
      learn_initial_query(config.get_bool("learn_initial_query", false)),
      dropout(config.get_float("dropout", 0)),
      attention_dropout(config.get_float("attention_dropout", 0)),
      activation_dropout(config.get_float("activation_dropout", 0)),
      normalize_before(config.get_bool("normalize_before", false)),
      num_denoising(config.get_int("num_denoising", 100)),
      label_noise_ratio(config.get_float("label_noise_ratio", 0.5)),
      box_noise_scale(config.get_float("box_noise_scale", 1)),
      auxiliary_loss(config.get_bool("auxiliary_loss", true)),
      weights(rt_detr_weights(config)),
      feat_strides(config.get_ints("feat_strides", {8, 16, 32})) {
  const double expansion = config.get_float("hidden_expansion", 1),
               csp = static_cast<double>(encoder_hidden_dim) * expansion;
  if (!(csp >= 1 && csp <= static_cast<double>(kRTDetrMostWidth)))
    fail("{}: hidden_expansion: {} times encoder_hidden_dim is no width", config.where(), expansion);
  csp_width = static_cast<int64_t>(csp);
  // There are twice as many noisy queries, and a number for each pair of them.
  if (num_denoising > kRTDetrMostDenoising)
    fail("{}: num_denoising: expected at most {}, found {}", config.where(), kRTDetrMostDenoising, num_denoising);
  expect_rt_detr_maps(config, *this);
  if (second) expect_rt_detr_second(config, num_feature_levels);
  if (config.has("anchor_image_size")) {
    anchor_image_size = config.get_pair("anchor_image_size", 0);
    if (std::any_of(feat_strides.begin(), feat_strides.end(), [](int64_t stride) { return stride < 1; }))
      fail("{}: feat_strides: expected numbers above 0", config.where());
  }
  refuse_unless(config, "use_timm_backbone", "false");
  // Without effect in Transformers, too; and what backbone_config says instead.
  for (const char* elsewhere : {"with_box_refine", "disable_custom_kernels", "eos_coefficient", "backbone",
                                "use_pretrained_backbone", "backbone_kwargs"})
    config.get_json(elsewhere);
}

}  // namespace transom
