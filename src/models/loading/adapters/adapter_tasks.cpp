// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/adapter_tasks.h"

#include <algorithm>

#include "base/json/json.h"
#include "files/config/model_config.h"
#include "models/records.h"

namespace transom {
namespace {

const AdapterTask kAdapterTasks[] = {
    {HeadTask::kCausalLM, "CAUSAL_LM", "text-generation", {}},
    {HeadTask::kSequenceClassification, "SEQ_CLS", "text-classification", {"classifier", "score"}},
    {HeadTask::kAudioClassification, "SEQ_CLS", "audio-classification", {"classifier", "score"}},
    {HeadTask::kTokenClassification, "TOKEN_CLS", "token-classification", {"classifier", "score"}},
    {HeadTask::kQuestionAnswering, "QUESTION_ANS", "question-answering", {"qa_outputs"}},
    {HeadTask::kSequenceToSequence, "SEQ_2_SEQ_LM", "text2text-generation", {}},
};

}  // namespace

const AdapterTask* find_adapter_task(const std::string& type, const fs::path& base, std::string& pipeline) {
  const Family* family = has_model_config(base) ? find_family(read_model_config(base)) : nullptr;
  const AdapterTask* found = nullptr;
  for (const AdapterTask& task : kAdapterTasks) {
    if (type != task.type) continue;
    const Architecture* own = family ? find_architecture(*family, task.head) : nullptr;
    if (!found || own) found = &task, pipeline = own ? own->head.pipelines->front() : task.pipeline;
    if (own) break;
  }
  return found;
}

void complete_task(AdapterConfig& config, const Model& model) {
  for (const AdapterTask& task : kAdapterTasks) {
    if (config.task_type().empty() ? *head_of(model).task != task.head : config.task_type() != task.type) continue;
    config.set("task_type", task.type);
    if (!config.kind().saves_modules) return;
    std::vector<std::string> saved = config.modules_to_save();
    for (const std::string& head : task.heads)
      if (std::find(saved.begin(), saved.end(), head) == saved.end()) saved.push_back(head);
    if (!saved.empty()) config.set("modules_to_save", saved);
    return;
  }
}

}  // namespace transom
