// SPDX-License-Identifier: Apache-2.0
#include "models/families/mask2former/mask2former_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

constexpr int64_t kMask2FormerMostWidth = 1 << 16, kMask2FormerMostLayers = 1000, kMask2FormerGroups = 32;

double mask2former_part(const Config& config, const char* field, double otherwise, double least, double most) {
  const double value = config.get_float(field, otherwise);
  if (!(value >= least && value <= most))
    fail("{}: {}: expected a number from {} to {}, found {}", config.where(), field, least, most, value);
  return value;
}

MaskWeights mask2former_weights(const Config& config) {
  MaskWeights weights{.classes = config.get_float("class_weight", 2),
                      .mask = config.get_float("mask_weight", 5),
                      .dice = config.get_float("dice_weight", 5),
                      .no_object = config.get_float("no_object_weight", 0.1),
                      .points = positive(config, "train_num_points", 12544, 1 << 20)};
  if (weights.classes == 0 && weights.mask == 0 && weights.dice == 0)
    fail("{}: class_weight, mask_weight and dice_weight: expected one that is not 0", config.where());
  const auto points = static_cast<double>(weights.points);
  weights.candidates = static_cast<int64_t>(points * mask2former_part(config, "oversample_ratio", 3, 0, 64));
  weights.unsure = static_cast<int64_t>(points * mask2former_part(config, "importance_sample_ratio", 0.75, 0, 1));
  if (weights.candidates < std::max<int64_t>(weights.unsure, 1))
    fail("{}: oversample_ratio: {} candidates are too few for the {} points that are the least sure of them",
         config.where(), weights.candidates, weights.unsure);
  return weights;
}

// How many times the finest of the maps that queries look at is made twice as large.
int64_t mask2former_finer_maps(const Config& config) {
  const std::vector<int64_t> strides = config.get_ints("feature_strides", {4, 8, 16, 32});
  const int64_t common = positive(config, "common_stride", 4, kMask2FormerMostWidth);
  if (strides.empty() || std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 1; }))
    fail("{}: feature_strides: expected numbers above 0", config.where());
  const auto first = strides.end() - std::min<ptrdiff_t>(kMask2FormerLevels, std::ssize(strides));
  const double times =
      std::log2(static_cast<double>(*std::min_element(first, strides.end()))) - std::log2(static_cast<double>(common));
  return std::max<int64_t>(static_cast<int64_t>(times), 0);
}

}  // namespace

Mask2FormerConfig::Mask2FormerConfig(const Config& config)
    : feature_size(positive(config, "feature_size", 256, kMask2FormerMostWidth)),
      mask_feature_size(positive(config, "mask_feature_size", 256, kMask2FormerMostWidth)),
      hidden_dim(positive(config, "hidden_dim", config.get_int("hidden_size", 256), kMask2FormerMostWidth)),
      num_attention_heads(positive(config, "num_attention_heads", 8)),
      num_queries(positive(config, "num_queries", 100, kMask2FormerMostWidth)),
      num_labels(number_of_labels(config)),
      encoder_layers(positive(config, "encoder_layers", 6, kMask2FormerMostLayers)),
      encoder_feedforward_dim(positive(config, "encoder_feedforward_dim", 1024, kMask2FormerMostWidth)),
      predictions(positive(config, "decoder_layers", config.get_int("num_hidden_layers", 10), kMask2FormerMostLayers)),
      dim_feedforward(positive(config, "dim_feedforward", 2048, kMask2FormerMostWidth)),
      activation_function(config.get_string("activation_function", "relu")),
      dropout(mask2former_part(config, "dropout", 0, 0, 1)),
      init_std(config.get_float("init_std", 0.02)),
      init_xavier_std(config.get_float("init_xavier_std", 1)),
      pre_norm(config.get_bool("pre_norm", false)),
      enforce_input_projection(config.get_bool("enforce_input_projection", false)),
      finer_maps(mask2former_finer_maps(config)),
      weights(mask2former_weights(config)) {
  if (feature_size % kMask2FormerGroups != 0)
    fail("{}: feature_size: expected a multiple of {}, the groups of its norms, found {}", config.where(),
         kMask2FormerGroups, feature_size);
  for (const int64_t width : {feature_size, hidden_dim})
    if (width % num_attention_heads != 0 || width % 4 != 0)
      fail("{}: feature_size and hidden_dim: expected multiples of 4 and of num_attention_heads, {}, found {}",
           config.where(), num_attention_heads, width);
  // Transformers takes the losses of all layers, and fails where it is told not to.
  refuse_unless(config, "use_auxiliary_loss", "true");
  // Without effect: what processors leave out, and what backbone_config says instead.
  for (const char* elsewhere : {"ignore_value", "output_auxiliary_logits", "backbone", "use_pretrained_backbone",
                                "use_timm_backbone", "backbone_kwargs"})
    config.get_json(elsewhere);
}

Config mask2former_backbone_config(const Config& config) {
  if (config.has("backbone_config")) return config.get_object("backbone_config");
  return make_config({{"model_type", "swin"},
                      {"depths", {2, 2, 18, 2}},
                      {"drop_path_rate", 0.3},
                      {"out_features", {"stage1", "stage2", "stage3", "stage4"}}},
                     config.where());
}

}  // namespace transom
