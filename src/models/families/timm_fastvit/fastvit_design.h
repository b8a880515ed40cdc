// SPDX-License-Identifier: Apache-2.0
// The shapes of timm's FastViT (Vasu et al., 2023), and of MobileCLIP's towers of images, which are of its kind. The
// name of the architecture says it, and model_args change it.
#pragma once

#include <string>
#include <vector>

#include "models/families/timm_wrapper/timm_arguments.h"

namespace transom {

struct FastVitStageDesign {
  int64_t depth, width;
  double mlp_ratio;
  bool attends;             // tokens are mixed by attention, or by convolutions
  bool shrinks;             // even where the width stays
  bool squeezes = false;    // while it shrinks
  bool has_places = false;  // a convolution tells places apart
};

struct FastVitDesign {
  explicit FastVitDesign(const TimmArguments& timm);
  static bool is_name(const std::string& name);

  std::vector<FastVitStageDesign> stages;
  int64_t mixer_window = 3, shrinking_window = 7, shrinking_stride = 2;
  double head_ratio = 2;  // of the last convolution's channels
  double layer_scale;     // of new weights
  double proj_drop_rate;
  bool shrinking_acts = false, stem_scales = true;  // an activation, and a branch of single pixels
  bool norms_channels = false;  // before attention, at each place; else by the statistics of a batch
  bool fused;                   // branches that are added in training are one convolution (inference_mode)
  std::string global_pool;

  int64_t features() const;  // of the last convolution
};

}  // namespace transom
