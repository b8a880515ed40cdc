// SPDX-License-Identifier: Apache-2.0
// The body of VideoMAE (Tong et al., 2022): a video cut into tubes, a patch over a few frames each, which go through
// the layers of ViT. B batch, F frames, C channels, N tubes, D hidden.
#pragma once

#include "models/families/vit/vit_body.h"

namespace transom {

struct VideoMAEConfig {
  explicit VideoMAEConfig(const Config& config);
  ViTConfig vit;
  int64_t num_frames, tubelet_size;
  bool use_mean_pooling;
  Extents grid{};  // of one layer of tubes

  int64_t tubes() const { return num_frames / tubelet_size * grid[0] * grid[1]; }
  int64_t numbers() const;  // of one tube
};

// Which tubes are seen and which are hidden, the seen ones first, each in their order.
struct HiddenTubes {
  // `masked` [B, N], not 0 where a tube is hidden; as many in each row. It is read here.
  explicit HiddenTubes(const Tensor& masked, int64_t tubes);
  Tensor seen, hidden;  // their places [B, .]
};

// Rows x [B, N, D] of some tubes [B, K] -> [B, K, D].
Tensor tubes_at(const Tensor& x, const Tensor& tubes);

// Sinusoids of N places, [1, N, D].
Tensor sinusoids_of_places(int64_t places, int64_t width);

// pixel_values [B, F, C, H, W], of the extents that the configuration has.
const Tensor& video_input(const NamedTensors& inputs, const VideoMAEConfig& c);

// The numbers of each tube, [B, N, frames, height, width, C]: as decoders give them.
Tensor cut_into_tubes(const Tensor& video, const VideoMAEConfig& c);

class VideoMAEBody {
 public:
  VideoMAEBody(const Config& config, const Scope& scope);
  EncoderOutput operator()(const NamedTensors& inputs, ForwardContext& context) const {
    return (*this)(video_input(inputs, c_), nullptr, context);
  }
  // Of the tubes that are seen alone, where some are hidden.
  EncoderOutput operator()(const Tensor& video, const HiddenTubes* tubes, ForwardContext& context) const;
  const VideoMAEConfig& settings() const { return c_; }

 private:
  VideoMAEConfig c_;
  std::shared_ptr<Parameter> weight_, bias_;
  Tensor places_;
  std::vector<ViTLayer> layers_;
  std::optional<LayerNorm> layernorm_;
};

}  // namespace transom
