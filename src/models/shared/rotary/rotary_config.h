// SPDX-License-Identifier: Apache-2.0
// The rotary embedding that a config.json describes: rope_theta, rope_scaling and partial_rotary_factor of transformers
// 4, or rope_parameters of transformers 5.
#pragma once

#include <string>

#include "files/config/config.h"
#include "models/nn/attention/rotary.h"

namespace transom {

// What a family takes where its configuration is silent.
struct RotaryDefaults {
  int64_t head_width = 0;
  double theta = 10000;
  double turning_part = 1;    // of each head
  bool partial = true;        // whether the family can turn a part of each head
  int64_t max_positions = 0;  // max_position_embeddings
  int64_t original_max_positions = 0;
  std::string layer_type;      // with a set of parameters for each kind of layer: "full_attention" ...
  bool only_longrope = false;  // Phi-3: "su" and "yarn" of older checkpoints mean longrope
};

// Refuses unknown kinds of scaling by name.
RotaryOptions rotary_options(const Config& config, const RotaryDefaults& defaults);

}  // namespace transom
