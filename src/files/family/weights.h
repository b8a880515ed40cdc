// SPDX-License-Identifier: Apache-2.0
// What is known of a family's weights by their names.
#pragma once

#include <string>
#include <vector>

#include "files/family/stated.h"

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

// Layers of a block that read the same inputs, and what makes these: a norm, or a linear layer whose outputs they are.
// Names are behind that of the block.
struct ScaledLayers {
  std::vector<std::string> layers;  // "self_attn.q_proj" ...
  std::string maker;
  bool maker_is_linear = false;
  bool needs_equal_heads = false;  // only where there are as many heads of keys as of queries
};

// A configuration's flag that one head of keys and values serves all queries. Without it the joined layer has queries,
// keys and values head by head.
struct MultiQuery {
  std::string flag;
  bool otherwise = false;
};

// The beginning of names that other versions of Transformers give otherwise. A model has the names of its checkpoint.
struct RenamedPart {
  std::string name, other;  // "language_model.lm_head.", "lm_head."
};

// Modules that kinds of adapters other than LoRA change where nobody names them, as in PEFT. Empty: nobody knows.
struct AdapterTargets {
  std::vector<std::string> ia3, ia3_feedforward;  // those of the second are among the first
  std::vector<std::string> norms;
  std::vector<std::string> adalora = {};  // empty: as of LoRA
};

struct FamilyWeights {
  Stated<std::vector<std::string>> lora_targets;  // modules that LoRA adapts where nobody names them, as in PEFT
  Stated<std::vector<LatePart>> late_parts;
  Stated<ScaledActivation> awq_activation;
  Stated<std::vector<ScaledLayers>> scaled_layers;  // of a block, for AWQ and SmoothQuant; none: not offered
  // Transformers sets linear layers anew by their plain weights before it reads codes, so that it opens no GPTQ or AWQ.
  Stated<bool> opens_no_codes;
  Stated<MultiQuery> multi_query;
  std::vector<RenamedPart> renamed_parts = {};
  AdapterTargets adapter_targets = {};
};

}  // namespace transom
