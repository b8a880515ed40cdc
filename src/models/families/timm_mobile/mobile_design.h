// SPDX-License-Identifier: Apache-2.0
// The shapes of timm's mobile networks: MobileNetV2 (Sandler et al., 2018), MobileNetV3 (Howard et al., 2019),
// EfficientNet (Tan and Le, 2019), its lite form, and EfficientNetV2 (Tan and Le, 2021). The name of the architecture
// says it; a name with tf_ before it is of weights that TensorFlow trained, with its padding and its epsilon.
#pragma once

#include <string>
#include <vector>

#include "models/families/timm_wrapper/timm_arguments.h"

namespace transom {

struct MobileBlock {
  enum class Kind {
    kSeparable,  // a depthwise convolution, then a pointwise one
    kInverted,   // a pointwise one to more channels before both
    kFused,      // one to more channels over a window in place of the first two
    kPlain       // one convolution
  };
  Kind kind;
  int64_t repeats, window, stride;
  double expansion;
  int64_t channels;
  double squeeze = 0;  // squeeze-and-excitation: its part of the channels; 0: none
  bool relu = false;   // whatever the network's activation is
};
using MobileStages = std::vector<std::vector<MobileBlock>>;

struct MobileDesign {
  explicit MobileDesign(const TimmArguments& timm);
  static bool is_name(const std::string& name);

  MobileStages stages;  // as they are built: every block once, with the channels that it gives
  int64_t stem = 32, features = 1280;
  bool pools_first = false;  // MobileNetV3's head: features are made of the mean
  std::string act_layer, global_pool;
  bool same_padding = false;  // as TensorFlow pads: by the extents of what comes
  double norm_epsilon = 1e-5, norm_momentum = 0.1;
  // Rounded to a multiple of 8, and not lowered by more than a tenth.
  static int64_t near_multiple(double channels, double least = 0.9);
};

}  // namespace transom
