// SPDX-License-Identifier: Apache-2.0
// Between the numbers that an autoencoder gives and those that a network of latent diffusion reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transom/model.h"

namespace transom {

struct LatentScale {
  int64_t channels = 4;
  double factor = 1;
  std::vector<float> means, deviations;  // of each channel; empty: 0 and 1
  double shift = 0;                      // of pipelines of flows: what is taken away before

  // As the configuration of the autoencoder says; `of_channels`: latents_mean and latents_std are read, which diffusers
  // reads of XL alone. `where` names the pipeline in errors.
  static LatentScale of(const Model& autoencoder, bool of_channels, const std::string& where);

  float for_network(float value, size_t channel) const {
    return (value - static_cast<float>(shift) - (means.empty() ? 0 : means[channel])) * static_cast<float>(factor) /
           (deviations.empty() ? 1 : deviations[channel]);
  }
  float for_decoder(float value, size_t channel) const {
    return value * (deviations.empty() ? 1 : deviations[channel]) / static_cast<float>(factor) +
           (means.empty() ? 0 : means[channel]) + static_cast<float>(shift);
  }
  // The same of [B, C, h, w].
  Tensor for_network(const Tensor& latents) const;
};

// Pixels a place of the latents.
int64_t enlargement_of(const Model& autoencoder, const std::string& where);

}  // namespace transom
