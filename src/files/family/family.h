// SPDX-License-Identifier: Apache-2.0
// The record of an architecture family: everything that any part of the program asks about it. Each folder of
// models/families defines one record, or a few that share their code, and registers it.
//
// The record stands on a low floor, so that readers of files, tokenizers and processors can ask it; what it points to
// is implemented above them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/family/foreign.h"
#include "files/family/heads.h"
#include "files/family/inputs.h"
#include "files/family/planning.h"
#include "files/family/processors.h"
#include "files/family/weights.h"

namespace transom {

class Config;
class Model;
class Scope;

struct Architecture {
  std::string name;  // "BertForSequenceClassification"
  FamilyHead head;
  std::function<std::unique_ptr<Model>(const Config& config, const Scope& scope)> make;
  std::optional<FamilyInputs> inputs = {};  // where they are not those of the family
};

struct Family {
  std::string model_type;   // of config.json: "bert"
  std::string base_prefix;  // of the parameters of the body inside a model with a head: "bert"
  std::vector<Architecture> architectures;
  Stated<FamilyInputs> inputs;   // of the body, which its classes share unless they say otherwise; labels are apart
  bool ties_scale_head = false;  // tie_word_embeddings also says whether the head's inputs are scaled
  std::string mark = {};         // a field that shows a configuration without a model_type to be of the family
  // Facts by subject, each in a header of its own. Their fields are Stated: none has a default, and a record that says
  // nothing does not compile. They are plain data, so that a record can also be read from a file.
  FamilyProcessors processors;
  FamilyWeights weights;
  FamilyForeign foreign;
  FamilyPlanning planning;
};

// All of them, in the order of their types.
const std::vector<Family>& families();
// The family of a model_type; null: none is known.
const Family* find_family(std::string_view model_type);
// The class of a name that `architectures` of config.json holds; null: none is known.
const Architecture* find_architecture(std::string_view name);
// The class of a family that is for a task; null: it has none.
const Architecture* find_architecture(const Family& family, HeadTask task);
const Architecture* find_architecture(const Family& family, std::string_view pipeline);

}  // namespace transom
