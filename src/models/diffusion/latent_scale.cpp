// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/latent_scale.h"

#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kMostLatentChannels = 1024;

Tensor numbers_of_channels(const std::vector<float>& numbers) {
  return Tensor::from(numbers, {1, static_cast<int64_t>(numbers.size()), 1, 1});
}

}  // namespace

LatentScale LatentScale::of(const Model& autoencoder, bool of_channels, const std::string& where) {
  const Config& config = autoencoder.config();
  LatentScale scale{.channels = config.get_int("latent_channels", 4),
                    .factor = config.get_float("scaling_factor", 0.18215),
                    .means = {},
                    .deviations = {}};
  if (scale.channels < 1 || scale.channels > kMostLatentChannels || scale.factor == 0 || !std::isfinite(scale.factor))
    fail("{}: vae: expected 1 to {} latent_channels and a scaling_factor, found {} and {}", where, kMostLatentChannels,
         scale.channels, scale.factor);
  if (!of_channels || !config.has("latents_mean") || !config.has("latents_std")) return scale;
  const auto numbers = [&](const char* name) {
    const Json& list = json_of(config)[name];
    std::vector<float> values;
    for (const Json& number : list.is_array() ? list : Json::array())
      if (number.is_number()) values.push_back(number.get<float>());
    if (static_cast<int64_t>(values.size()) != scale.channels)
      fail("{}: vae: {}: expected {} numbers", where, name, scale.channels);
    return values;
  };
  scale.means = numbers("latents_mean");
  scale.deviations = numbers("latents_std");
  return scale;
}

Tensor LatentScale::for_network(const Tensor& latents) const {
  const Tensor shifted = shift == 0 ? latents : latents - shift;
  const Tensor centred = means.empty() ? shifted : shifted - numbers_of_channels(means);
  const Tensor scaled = centred * factor;
  return deviations.empty() ? scaled : scaled / numbers_of_channels(deviations);
}

int64_t enlargement_of(const Model& autoencoder, const std::string& where) {
  const size_t blocks = autoencoder.config().get_ints("block_out_channels", {64}).size();
  if (blocks < 1 || blocks > 12) fail("{}: vae: expected 1 to 12 blocks, found {}", where, blocks);
  return int64_t{1} << (blocks - 1);
}

}  // namespace transom
