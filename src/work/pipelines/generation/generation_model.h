// SPDX-License-Identifier: Apache-2.0
// What tasks that write text share: a model that generates, with its tokenizer, and the options of generate() among a
// pipeline's parameters.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "transom/generation.h"
#include "work/pipelines/pipeline.h"

namespace transom {

struct GenerationModel {
  static GenerationModel load(const std::string& directory, const LoadOptions& options);

  // What the checkpoint says, then `defaults` of the pipeline for what neither it nor the options set, then the
  // options: fields of GenerationConfig, "generate_kwargs" with such, "stop" and "stop_sequence".
  GenerationConfig config_for(const TaskOptions& options, const Json& defaults) const;
  // Takes over fields that config.json keeps for a task (task_specific_params), as if the checkpoint set them.
  void specialise(const Json& fields);

  std::unique_ptr<Model> model;
  Tokenizer tokenizer;
  GenerationConfig config;           // of the checkpoint
  std::set<std::string> given = {};  // names of the fields that it sets
};

// The fields of GenerationConfig and what config_for() takes besides, behind `own`.
TaskParameters generation_parameters(TaskParameters own);

}  // namespace transom
