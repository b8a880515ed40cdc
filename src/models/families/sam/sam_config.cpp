// SPDX-License-Identifier: Apache-2.0
#include "models/families/sam/sam_config.h"

#include "base/error.h"
#include "models/shared/vision_inputs.h"

namespace transom {
namespace {

constexpr int64_t kSamMost = 1 << 16;  // of extents, widths and numbers: what is larger is no model of this kind

int64_t sam_size(const Config& config, std::string_view field, int64_t otherwise) {
  return positive(config, field, otherwise, kSamMost);
}

void expect_divides(const Config& config, std::string_view what, int64_t by, int64_t value) {
  if (value % by != 0) fail("{}: {}: expected a multiple of {}, found {}", config.where(), what, by, value);
}

}  // namespace

SamVisionConfig::SamVisionConfig(const Config& config)
    : hidden_size(sam_size(config, "hidden_size", 768)),
      output_channels(sam_size(config, "output_channels", 256)),
      num_hidden_layers(sam_size(config, "num_hidden_layers", 12)),
      num_attention_heads(sam_size(config, "num_attention_heads", 12)),
      num_channels(sam_size(config, "num_channels", 3)),
      image_size(sam_size(config, "image_size", 1024)),
      patch_size(sam_size(config, "patch_size", 16)),
      mlp_dim(config.has("mlp_dim")
                  ? sam_size(config, "mlp_dim", 0)
                  : static_cast<int64_t>(static_cast<double>(hidden_size) * config.get_float("mlp_ratio", 4))),
      window_size(config.get_int("window_size", 14)),
      num_pos_feats(sam_size(config, "num_pos_feats", 128)),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-6)),
      attention_dropout(config.get_float("attention_dropout", 0)),
      initializer_range(config.get_float("initializer_range", 1e-10)),
      hidden_act(config.get_string("hidden_act", "gelu")),
      qkv_bias(config.get_bool("qkv_bias", true)),
      use_abs_pos(config.get_bool("use_abs_pos", true)),
      use_rel_pos(config.get_bool("use_rel_pos", true)),
      global_attn_indexes(config.get_ints("global_attn_indexes", {2, 5, 8, 11})) {
  for (const char* follows : {"mlp_ratio", "scale"}) config.get_json(follows);  // of mlp_dim, and of new weights
  expect_divides(config, "hidden_size", num_attention_heads, hidden_size);
  if (mlp_dim < 1 || mlp_dim > kSamMost)
    fail("{}: mlp_ratio: expected a layer of 1 to {} numbers, found {}", config.where(), kSamMost, mlp_dim);
  if (window_size < 0 || window_size > kSamMost)
    fail("{}: window_size: expected 0 to {}, found {}", config.where(), kSamMost, window_size);
  if (image_size < patch_size)
    fail("{}: image_size: expected patch_size, {}, or more, found {}", config.where(), patch_size, image_size);
}

SamPromptConfig::SamPromptConfig(const Config& config)
    : hidden_size(sam_size(config, "hidden_size", 256)),
      image_size(sam_size(config, "image_size", 1024)),
      patch_size(sam_size(config, "patch_size", 16)),
      mask_input_channels(sam_size(config, "mask_input_channels", 16)),
      num_point_embeddings(sam_size(config, "num_point_embeddings", 4)),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-6)),
      hidden_act(config.get_string("hidden_act", "gelu")) {
  config.get_json("image_embedding_size");  // follows from the two sizes
  expect_divides(config, "mask_input_channels", 4, mask_input_channels);
  if (num_point_embeddings < 4)
    fail("{}: num_point_embeddings: expected 4 or more, found {}", config.where(), num_point_embeddings);
}

SamDecoderConfig::SamDecoderConfig(const Config& config)
    : hidden_size(sam_size(config, "hidden_size", 256)),
      mlp_dim(sam_size(config, "mlp_dim", 2048)),
      num_hidden_layers(sam_size(config, "num_hidden_layers", 2)),
      num_attention_heads(sam_size(config, "num_attention_heads", 8)),
      attention_downsample_rate(sam_size(config, "attention_downsample_rate", 2)),
      num_multimask_outputs(sam_size(config, "num_multimask_outputs", 3)),
      iou_head_depth(sam_size(config, "iou_head_depth", 3)),
      iou_head_hidden_dim(sam_size(config, "iou_head_hidden_dim", 256)),
      layer_norm_eps(config.get_float("layer_norm_eps", 1e-6)),
      hidden_act(config.get_string("hidden_act", "relu")) {
  expect_divides(config, "hidden_size", 8, hidden_size);
  expect_divides(config, "hidden_size", num_attention_heads, hidden_size);
  expect_divides(config, "hidden_size / 2", num_attention_heads, hidden_size / 2);
  expect_divides(config, "hidden_size / attention_downsample_rate", num_attention_heads,
                 hidden_size / attention_downsample_rate);
  if (hidden_size < attention_downsample_rate || iou_head_depth < 2)
    fail(
        "{}: expected attention_downsample_rate of at most hidden_size and iou_head_depth of 2 or more, found {} and "
        "{}",
        config.where(), attention_downsample_rate, iou_head_depth);
}

SamConfig::SamConfig(const Config& config)
    : vision(config.get_object("vision_config")),
      prompt(config.get_object("prompt_encoder_config")),
      decoder(config.get_object("mask_decoder_config")) {
  config.get_json("initializer_range");
  if (2 * vision.num_pos_feats != prompt.hidden_size || vision.output_channels != prompt.hidden_size ||
      decoder.hidden_size != prompt.hidden_size)
    fail("{}: expected prompts, masks, output_channels and 2 num_pos_feats of one width, found {}, {}, {} and {}",
         config.where(), prompt.hidden_size, decoder.hidden_size, vision.output_channels, 2 * vision.num_pos_feats);
  if (vision.grid() != prompt.image_size / prompt.patch_size)
    fail("{}: expected one grid of patches for pictures and prompts, found {} and {}", config.where(), vision.grid(),
         prompt.image_size / prompt.patch_size);
}

}  // namespace transom
