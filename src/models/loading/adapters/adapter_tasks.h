// SPDX-License-Identifier: Apache-2.0
// PEFT's names of tasks, and what it trains whole for each of them.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "files/family/heads.h"
#include "models/loading/adapters/adapter_config.h"

namespace transom {

class Model;

struct AdapterTask {
  HeadTask head;
  const char* type;                // task_type of adapter_config.json
  const char* pipeline;            // of most models that have it
  std::vector<std::string> heads;  // modules that PEFT trains whole
};

// The task of PEFT's name in the family of the model that adapters are for, and its pipeline; null: there is none.
const AdapterTask* find_adapter_task(const std::string& type, const fs::path& base, std::string& pipeline);
// Fills in the task type, and the modules to save with it, for a model with a head.
void complete_task(AdapterConfig& config, const Model& model);

}  // namespace transom
