// SPDX-License-Identifier: Apache-2.0
// A family in other formats of files: GGUF, the TensorFlow and Flax classes of Transformers 4.57, the last with them,
// and single files of pipelines that draw.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/family/gguf.h"
#include "files/family/heads.h"
#include "files/family/original.h"
#include "files/family/stated.h"

namespace transom {

struct KerasNames {
  std::string body;                  // the layer that holds the body; a bare body's names in PyTorch lack it
  std::string joint = "_._";         // between a list of layers and a number: "layer_._0", or ".": "layers.0"
  std::vector<std::string> without;  // endings of architectures that have no class there
  // Modules whose weights lie there as in PyTorch, by their last word, since they are Conv1D in both.
  std::vector<std::string> conv1d;
  std::vector<std::string> own_tables;  // tables of layers of Transformers' own: their variable is "weight"
  std::string scale = "gamma";          // the variable of a norm's scale
  std::vector<std::pair<std::string, std::string>> renamed;  // the first two modules of a head, and its name there
  std::string separate;  // the module whose numbers are modules of their own: "decoder/0"
  std::string doubled;   // a bias that is there a second time, in the layer "decoder" beside it
};

struct FlaxNames {
  std::vector<std::string> without;  // endings of architectures that have no class there
  std::string scale = "scale";       // the name of a norm's scale
  std::string computed;              // the end of the name of a tensor that is computed there
};

// A checkpoint of Google's, whose configuration names neither the type nor the class.
struct GoogleFiles {
  std::string config;        // "bert_config.json"
  HeadTask with_order_head;  // what a checkpoint is for that holds the head of two sentences' order
};

struct FamilyForeign {
  Stated<std::optional<GgufFamily>> gguf;
  Stated<std::optional<KerasNames>> keras;
  Stated<std::optional<FlaxNames>> flax;
  std::optional<GoogleFiles> google = {};
  std::vector<OriginalLayout> original = {};
};

}  // namespace transom
