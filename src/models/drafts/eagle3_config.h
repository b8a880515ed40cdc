// SPDX-License-Identifier: Apache-2.0
// config.json of a head of EAGLE-3, as its trainers write it: the authors' and SpecForge's, ModelOpt's with an
// eagle_config, and that of Speculators with a transformer_layer_config.
#pragma once

#include <string>
#include <vector>

#include "models/generative.h"
#include "models/nn/attention/rotary.h"

namespace transom {

struct Eagle3Config {
  int64_t width, heads, key_heads, head_size, inner, vocabulary, rows, positions;
  double epsilon;
  bool bias = false, inner_bias = false;
  bool norms_residual = false;    // what attention adds to is normed, too
  bool norms_states = false;      // the model's states together, before the linear layer
  bool passes_normed_on = false;  // its next pass reads its states behind the last norm
  std::string activation;
  RotaryOptions rotary;
  std::vector<size_t> reads;  // of the model's hidden_states
};

// Refuses by name what is not carried out, and a head that was made for another model.
Eagle3Config eagle3_config(const Config& config, const GenerativeModel& model);

}  // namespace transom
