// SPDX-License-Identifier: Apache-2.0
// What a planner must know of a model's layers beside their widths: from the parameters of the family's own classes,
// or, of a model that Transom cannot load, by its type's name.
#pragma once

#include <string>

#include "base/json/json_fwd.h"

namespace transom {

struct LayerStack;  // plan/shape/model_shape.h

// What a model consists of.
enum class ModelKind { kText, kPictures, kSpectra, kSamples, kTwoStacks, kTwoTowers };

struct LayerFacts {
  ModelKind kind = ModelKind::kText;
  bool causal = true;            // tokens look back alone
  bool gated = false;            // feed-forward parts with a gate: SwiGLU, GeGLU
  bool fused_attention = false;  // the usual implementation never writes the probabilities to memory
  bool shared = false;           // one layer's weights serve all
  bool tied = false;             // the head's matrix is the token table, where the configuration does not say
  double norms = 2;              // a layer
  double local_share = 1;        // of the layers that are local, where there is a window
  double shared_experts = 0;     // where the configuration does not say
  double text_tokens = 0;        // of the tower of texts
};

// `widths`: the sizes that the configuration states, in whichever family's words.
LayerFacts layer_facts(const Json& config, const std::string& model_type, const LayerStack& widths);
// What an encoder of sounds gives a decoder to look at; 0: the model reads no spectra.
double frames_of_sound(const Json& config, const std::string& model_type);

}  // namespace transom
