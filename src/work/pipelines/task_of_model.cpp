// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/task_of_model.h"

#include "base/files/directories.h"
#include "base/json/json.h"
#include "files/family/family.h"
#include "files/hub/adapters.h"
#include "files/hub/resolve.h"
#include "models/diffusion/pipeline_directory.h"
#include "models/loading/adapters/adaptation.h"
#include "models/sentences/module_list.h"
#include "models/sentences/sentence_modules.h"
#include "work/pipelines/text/writing_ranker.h"

namespace transom {

std::string task_of_model(const std::string& directory) {
  const fs::path folder = directory_of_model(directory);
  if (holds_adapters(directory))
    if (std::string task = task_of_adapters(directory); !task.empty()) return task;
  if (is_pipeline_directory(folder)) return "text-to-image";  // a pipeline of diffusers
  if (names_module(folder, kSpladePooling)) return "fill-mask";
  if (has_logit_score(folder)) return "text-ranking";
  // A cross-encoder has modules too, but answers by the head of its architecture.
  if (path_exists(folder / "modules.json") && sentence_model_type(folder) != "CrossEncoder")
    return "feature-extraction";
  const Json config = read_json(folder / "config.json");
  const auto architectures = config.find("architectures");
  if (architectures == config.end() || !architectures->is_array() || architectures->empty() ||
      !(*architectures)[0].is_string())
    return "feature-extraction";
  const auto name = (*architectures)[0].get<std::string>();
  const Architecture* architecture = find_architecture(name);
  return architecture && !architecture->head.pipelines->empty() ? architecture->head.pipelines->front()
                                                                : "feature-extraction";
}

}  // namespace transom
