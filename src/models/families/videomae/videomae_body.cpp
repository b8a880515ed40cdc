// SPDX-License-Identifier: Apache-2.0
#include "models/families/videomae/videomae_body.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/nn/weight.h"

namespace transom {
namespace {

constexpr int64_t kMostTubes = 1 << 20, kMostFrames = 1 << 16;

}  // namespace

VideoMAEConfig::VideoMAEConfig(const Config& config)
    : vit(config),
      num_frames(positive(config, "num_frames", 16, kMostFrames)),
      tubelet_size(positive(config, "tubelet_size", 2, kMostFrames)),
      use_mean_pooling(config.get_bool("use_mean_pooling", true)),
      grid(patch_grid(vit.image_size, vit.patch_size)) {
  if (!config.has("qkv_bias")) vit.qkv_bias = config.get_bool("qv_bias", true);  // its older name
  for (const char* of_decoder : {"decoder_hidden_size", "decoder_num_hidden_layers", "decoder_num_attention_heads",
                                 "decoder_intermediate_size", "norm_pix_loss"})
    config.get_json(of_decoder);  // which other heads have not
  vit.biases_apart = true;
  if (num_frames % tubelet_size != 0 || vit.image_size[0] % vit.patch_size[0] != 0 ||
      vit.image_size[1] % vit.patch_size[1] != 0)
    fail("{}: tubelet_size and patch_size: expected to divide {} frames of {}x{}, found {} and {}x{}", config.where(),
         num_frames, vit.image_size[0], vit.image_size[1], tubelet_size, vit.patch_size[0], vit.patch_size[1]);
  if (tubes() < 1 || tubes() > kMostTubes)
    fail("{}: num_frames and image_size make {} tubes: expected from 1 to {}", config.where(), tubes(), kMostTubes);
}

int64_t VideoMAEConfig::numbers() const {
  return vit.num_channels * tubelet_size * vit.patch_size[0] * vit.patch_size[1];
}

HiddenTubes::HiddenTubes(const Tensor& masked, int64_t tubes) {
  if (masked.rank() != 2 || masked.dim(1) != tubes)
    fail("bool_masked_pos: expected [batch, {}], found {}", tubes, to_string(masked.shape()));
  const std::vector<int64_t> values = cast(cast(masked, DType::kBool), DType::kInt64).to_vector<int64_t>();
  const int64_t B = masked.dim(0);
  std::vector<int64_t> first, second;
  for (int64_t row = 0; row < B; ++row) {
    const size_t before = second.size();
    for (int64_t i = 0; i < tubes; ++i) (values[static_cast<size_t>(row * tubes + i)] ? second : first).push_back(i);
    if (const size_t found = second.size() - before, expected = second.size() / static_cast<size_t>(row + 1);
        found != expected || before != expected * static_cast<size_t>(row))
      fail("bool_masked_pos: expected as many hidden patches in each row, found {} in row {}", found, row + 1);
  }
  const auto of_row = [&](const std::vector<int64_t>& places) {
    return Tensor::from(places, {B, static_cast<int64_t>(places.size()) / B});
  };
  if (first.empty() || second.empty()) fail("bool_masked_pos: expected that some patches are hidden and some are not");
  seen = of_row(first), hidden = of_row(second);
}

Tensor tubes_at(const Tensor& x, const Tensor& tubes) {
  const Shape shape{tubes.dim(0), tubes.dim(1), x.dim(2)};
  return take_along_axis(x, broadcast_to(unsqueeze(tubes, 2), shape), 1);
}

Tensor sinusoids_of_places(int64_t places, int64_t width) {
  std::vector<float> values(static_cast<size_t>(places * width));
  for (int64_t i = 0; i < width; ++i) {
    const double period = std::pow(10000.0, static_cast<double>(2 * (i / 2)) / static_cast<double>(width));
    for (int64_t place = 0; place < places; ++place) {
      const double angle = static_cast<double>(place) / period;
      values[static_cast<size_t>(place * width + i)] =
          static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return Tensor::from(values, {1, places, width});
}

const Tensor& video_input(const NamedTensors& inputs, const VideoMAEConfig& c) {
  const Tensor& video = inputs.at("pixel_values");
  const Shape expected{c.num_frames, c.vit.num_channels, c.vit.image_size[0], c.vit.image_size[1]};
  if (video.rank() != 5 || !std::equal(expected.begin(), expected.end(), video.shape().begin() + 1))
    fail("pixel_values: expected [batch, {}, {}, {}, {}] (frames, channels, height, width), found {}", expected[0],
         expected[1], expected[2], expected[3], to_string(video.shape()));
  return video;
}

Tensor cut_into_tubes(const Tensor& video, const VideoMAEConfig& c) {
  const auto [height, width] = c.vit.patch_size;
  const int64_t B = video.dim(0), C = c.vit.num_channels;
  const Tensor parts =
      reshape(video, {B, c.num_frames / c.tubelet_size, c.tubelet_size, C, c.grid[0], height, c.grid[1], width});
  return reshape(permute(parts, {0, 1, 4, 6, 2, 5, 7, 3}), {B, c.tubes(), c.tubelet_size, height, width, C});
}

VideoMAEBody::VideoMAEBody(const Config& config, const Scope& scope)
    : c_(config), places_(sinusoids_of_places(c_.tubes(), c_.vit.hidden_size)) {
  const int64_t D = c_.vit.hidden_size;
  const Scope projection = scope / "embeddings" / "patch_embeddings" / "projection";
  weight_ = projection.parameter("weight",
                                 {D, c_.vit.num_channels, c_.tubelet_size, c_.vit.patch_size[0], c_.vit.patch_size[1]},
                                 Initial::normal(c_.vit.initializer_range));
  bias_ = projection.parameter("bias", {D}, Initial::zeros());
  for (int64_t i = 0; i < c_.vit.num_hidden_layers; ++i) layers_.emplace_back(scope / "encoder" / "layer" / i, c_.vit);
  if (!c_.use_mean_pooling) layernorm_.emplace(scope / "layernorm", D, c_.vit.layer_norm_eps);
}

EncoderOutput VideoMAEBody::operator()(const Tensor& video, const HiddenTubes* tubes, ForwardContext& context) const {
  const int64_t B = video.dim(0), D = c_.vit.hidden_size;
  // The windows of the convolution lie beside each other: it is a product with each tube's numbers.
  const Tensor numbers = reshape(permute(cut_into_tubes(video, c_), {0, 1, 5, 2, 3, 4}), {B, c_.tubes(), c_.numbers()});
  Tensor x = linear(numbers, reshape(weight_->value, {D, c_.numbers()}), bias_->value, context.computing);
  x = x + cast(places_, x.dtype());
  if (tubes) x = tubes_at(x, tubes->seen);
  EncoderOutput output = through_layers(layers_, x, Tensor(), context);
  if (layernorm_) output.last_hidden_state = (*layernorm_)(output.last_hidden_state, context);
  return output;
}

}  // namespace transom
