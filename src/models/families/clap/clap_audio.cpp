// SPDX-License-Identifier: Apache-2.0
#include "models/families/clap/clap_audio.h"

#include <cmath>

#include "models/family.h"
#include "models/nn/vision/bicubic_matrix.h"

namespace transom {
namespace {

constexpr double kClapEpsilon = 1e-5;  // of norms that no field sets

double clap_deviation(const Config& config, int64_t width) {
  const auto layers = static_cast<double>(config.get_int("num_hidden_layers", 4));
  return config.get_float("initializer_factor", 1) / std::sqrt(static_cast<double>(width) * 2 * std::max(layers, 1.0));
}

}  // namespace

ClapAudioConfig::ClapAudioConfig(const Config& config)
    : stages{.embed_dim = positive(config, "patch_embeds_hidden_size", 96),
             .window_size = positive(config, "window_size", 8),
             .depths = config.get_ints("depths", {2, 2, 6, 2}),
             .num_heads = config.get_ints("num_attention_heads", {4, 8, 16, 32}),
             .mlp_ratio = config.get_float("mlp_ratio", 4),
             .hidden_dropout_prob = config.get_float("hidden_dropout_prob", 0.1),
             .attention_probs_dropout_prob = config.get_float("attention_probs_dropout_prob", 0),
             .drop_path_rate = config.get_float("drop_path_rate", 0),
             .layer_norm_eps = config.get_float("layer_norm_eps", 1e-5),
             .deviation = clap_deviation(config, positive(config, "hidden_size", 768)),
             .hidden_act = config.get_string("hidden_act", "gelu"),
             .qkv_bias = config.get_bool("qkv_bias", true),
             .heads_field = "num_attention_heads"},
      bands(positive(config, "num_mel_bins", 64)),
      side(positive(config, "spec_size", 256)),
      hidden_size(positive(config, "hidden_size", 768)),
      projection_dim(positive(config, "projection_dim", 512)),
      patch(config.get_pair("patch_size", 4)),
      stride(config.get_pair("patch_stride", 4)),
      patch_norm(config.get_bool("enable_patch_layer_norm", true)),
      projection_hidden_act(config.get_string("projection_hidden_act", "relu")) {
  refuse_unless(config, "enable_fusion", "false");
  refuse_unless(config, "flatten_patch_embeds", "true");
  if (config.get_int("patch_embed_input_channels", 1) != 1)
    fail("{}: patch_embed_input_channels: expected 1, as a spectrogram has, found {}", config.where(),
         config.get_int("patch_embed_input_channels", 1));
  stages.check(config.where());
  if (stages.width() != hidden_size)
    fail("{}: hidden_size: expected {}, the width of the last stage, found {}", config.where(), stages.width(),
         hidden_size);
  if (side > 1 << 14 || side % bands != 0)
    fail("{}: spec_size: expected a multiple of num_mel_bins {} up to {}, found {}", config.where(), bands, 1 << 14,
         side);
  const int64_t merged = int64_t{1} << (stages.depths.size() - 1);
  for (const size_t axis : {size_t{0}, size_t{1}})
    if (stride[axis] < 1 || patch[axis] < stride[axis] || patch[axis] > side || side % (stride[axis] * merged) != 0)
      fail(
          "{}: patch_size and patch_stride: expected strides of which {} make parts of spec_size {}, and no smaller "
          "patches, found {} and {}",
          config.where(), merged, side, patch[axis], stride[axis]);
  if (grid()[0] / merged % rows() != 0)
    fail("{}: spec_size {} and num_mel_bins {}: {} parts of the spectrogram do not divide {} places", config.where(),
         side, bands, rows(), grid()[0] / merged);
}

ClapAudioEncoder::ClapAudioEncoder(const Scope& scope, const ClapAudioConfig& c)
    : c_(c),
      batch_norm_(scope / "batch_norm", c.bands),
      proj_(scope / "patch_embed" / "proj", 1, c.stages.embed_dim, {c.patch[0], c.patch[1]},
            {.strides = {c.stride[0], c.stride[1]},
             .low = {(c.patch[0] - c.stride[0]) / 2, (c.patch[1] - c.stride[1]) / 2},
             .high = {(c.patch[0] - c.stride[0]) / 2, (c.patch[1] - c.stride[1]) / 2},
             .deviation = c.stages.deviation}),
      layers_(scope / "layers", c.stages),
      norm_(scope / "norm", c.hidden_size, kClapEpsilon) {
  if (c.patch_norm) patch_norm_.emplace(scope / "patch_embed" / "norm", c.stages.embed_dim, kClapEpsilon);
}

Tensor ClapAudioEncoder::square(const Tensor& features, ForwardContext& context) const {
  const int64_t rows = c_.rows(), frames = c_.side * rows, B = features.dim(0), T = features.dim(2);
  if (features.rank() != 4 || features.dim(1) != 1 || T < 1 || T > frames || features.dim(3) != c_.bands)
    fail("input_features: expected [batch, 1, 1 to {}, {}], found {}", frames, c_.bands, to_string(features.shape()));
  Tensor x = permute(batch_norm_(permute(features, {0, 3, 2, 1}), context), {0, 3, 2, 1});  // each band has its own
  x = reshape(x, {B, T, c_.bands});
  if (T < frames)
    x = permute(dot_general(bicubic_matrix(T, frames, true), x, {{}, {}, {1}, {1}}, context.computing), {1, 0, 2});
  // Parts of `side` frames each, one below the other: [B, rows, side, F] -> [B, rows F, side]
  return reshape(permute(reshape(x, {B, rows, c_.side, c_.bands}), {0, 1, 3, 2}), {B, 1, c_.side, c_.side});
}

Tensor ClapAudioEncoder::operator()(const Tensor& features, ForwardContext& context) const {
  Tensor x = proj_(square(features, context), context);
  if (x.dim(2) != c_.grid()[0] || x.dim(3) != c_.grid()[1])
    fail("config.json: patch_size and patch_stride: expected a grid of {}x{}, found {}x{}", c_.grid()[0], c_.grid()[1],
         x.dim(2), x.dim(3));
  x = permute(flatten(x, 2, 3), {0, 2, 1});
  if (patch_norm_) x = (*patch_norm_)(x, context);
  // Transformers lays the places out by band and time again, of which the mean forgets all.
  return mean(norm_(layers_(x, c_.grid(), context).back(), context), {1});
}

}  // namespace transom
