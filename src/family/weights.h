// SPDX-License-Identifier: Apache-2.0
// What is known of a family's weights by their names.
#pragma once

#include <string>
#include <vector>

#include "family/stated.h"

namespace transom {

// A part that Transformers makes after the other parts of its module, unlike what the order of computation suggests.
struct LatePart {
  std::string module, part;     // the last word of the module's path; empty: the whole model
  bool from_version_5 = false;  // of Transformers
};

// An activation whose outputs AWQ divides, since no weight stands before it that could take the division.
struct ScaledActivation {
  std::string layer, activation;  // the layer before it, its own name: "c_fc", "act"
};

struct FamilyWeights {
  Stated<std::vector<std::string>> lora_targets;  // modules that LoRA adapts where nobody names them, as in PEFT
  Stated<std::vector<LatePart>> late_parts;
  Stated<ScaledActivation> awq_activation;
};

}  // namespace transom
