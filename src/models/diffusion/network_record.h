// SPDX-License-Identifier: Apache-2.0
// What the records of diffusers' networks share: parts of a pipeline, which have neither texts nor pictures of their
// own to process.
#pragma once

#include <string>
#include <vector>

#include "models/family.h"

namespace transom {

struct NetworkRecord {
  std::string model_type;
  Architecture architecture;
  FamilyInputs inputs;
  std::string mark;  // a field of config.json that no other network has
  std::vector<std::string> lora_targets = {"to_q", "to_k", "to_v", "to_out.0"};
  std::vector<OriginalLayout> original = {};
};

Family network_family(NetworkRecord record);

}  // namespace transom
