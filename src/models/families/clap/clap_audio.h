// SPDX-License-Identifier: Apache-2.0
// The audio tower of CLAP (Wu et al., 2023): HTS-AT (Chen et al., 2022), Swin on a spectrogram that is cut along time
// and laid as a square. B batch, T frames, F bands, S the square's side, D width.
#pragma once

#include <optional>

#include "files/config/config.h"
#include "models/families/swin/swin_stages.h"

namespace transom {

struct ClapAudioConfig {
  explicit ClapAudioConfig(const Config& config);
  SwinStagesConfig stages;
  int64_t bands, side, hidden_size, projection_dim;
  Extents patch, stride;
  bool patch_norm;
  std::string projection_hidden_act;

  int64_t rows() const { return side / bands; }  // of the spectrogram's parts in the square, one below the other
  Extents grid() const { return {side / stride[0], side / stride[1]}; }
};

class ClapAudioEncoder {
 public:
  ClapAudioEncoder(const Scope& scope, const ClapAudioConfig& c);
  // input_features [B, 1, T, F] -> [B, D]
  Tensor operator()(const Tensor& features, ForwardContext& context) const;

 private:
  Tensor square(const Tensor& features, ForwardContext& context) const;  // -> [B, 1, S, S]

  ClapAudioConfig c_;
  BatchNorm batch_norm_;
  Convolution proj_;
  std::optional<LayerNorm> patch_norm_;
  SwinStages layers_;
  LayerNorm norm_;
};

}  // namespace transom
