// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/page/task_form.h"

#include <algorithm>

#include "base/json/json.h"
#include "work/pipelines/task_record.h"

namespace transom::serve {
namespace {

bool takes_labels(const std::string& task) {
  const TaskRecord* record = find_task(task);
  return record && find_parameter(record->parameters(), "candidate_labels");
}

Json field(const char* name, const char* label, const char* kind, bool optional = false) {
  return Json::array({name, label, kind, optional});
}

}  // namespace

Json form_of_model(const ModelFacts& model) {
  const TaskRecord* task = find_task(model.task);
  if (!task) return nullptr;
  Json form = Json::array();
  if (task->input == InputKind::kQuestion) {
    form.push_back(field("question", "Question", "line"));
    form.push_back(field("context", "Text that answers it", "area"));
  } else if (task->input == InputKind::kImage) {
    form.push_back(field("file", "Picture", "image"));
  } else if (task->input == InputKind::kAudio) {
    form.push_back(field("file", "Sound", "sound"));
  } else if (task->input == InputKind::kVideo) {
    form.push_back(field("file", "Animation (GIF, APNG)", "image"));
  } else if (asks_about_pictures(*task)) {
    form.push_back(field("image", "Picture", "image"));
    form.push_back(field(std::string(task->text_name).c_str(), "Question", "line"));
  } else if (model.embeds) {
    form.push_back(field("text", "Texts, one a line: how alike are they?", "lines"));
  } else if (task->input == InputKind::kSentences) {
    const std::string one(task->one_name), others(task->others_name);
    form.push_back(field(one.c_str(), one.c_str(), "line"));
    form.push_back(field(others.c_str(), (others + ", one a line").c_str(), "lines"));
  } else {
    form.push_back(field("text", "Text", "area"));
  }
  if (takes_labels(model.task)) form.push_back(field("labels", "Labels, with commas between", "line"));
  else if (std::any_of(model.tasks.begin(), model.tasks.end(), takes_labels))
    form.push_back(field("labels", "Labels, if the model judges any (with commas between)", "line", true));
  return form;
}

}  // namespace transom::serve
