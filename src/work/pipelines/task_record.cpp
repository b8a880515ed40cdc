// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/task_record.h"

#include <algorithm>

#include "base/error.h"
#include "transom/pipeline.h"

namespace transom {
namespace {

std::vector<const TaskRecord*>& registered() {
  static std::vector<const TaskRecord*> records;
  return records;
}

}  // namespace

// Files register in any order: by name the list is the same in every build.
RegisterTask::RegisterTask(const TaskRecord& record) {
  std::vector<const TaskRecord*>& all = registered();
  const auto place = std::lower_bound(all.begin(), all.end(), &record,
                                      [](const TaskRecord* a, const TaskRecord* b) { return a->name < b->name; });
  all.insert(place, &record);
}

const std::vector<const TaskRecord*>& task_records() { return registered(); }

const TaskRecord* find_task(std::string_view name) {
  for (const TaskRecord* task : task_records())
    if (name == task->name || (!task->alias.empty() && name == task->alias) ||
        (task->is_variant && task->is_variant(name)))
      return task;
  return nullptr;
}

const TaskRecord& need_task(std::string_view name) {
  if (const TaskRecord* task = find_task(name)) return *task;
  fail(ErrorKind::kUsage, "unknown task {}{} Known are: {}", quoted(name), did_you_mean(name, pipeline_tasks()),
       fmt::join(pipeline_tasks(), ", "));
}

std::string canonical_task(const std::string& name) {
  const TaskRecord& known = need_task(name);
  return name == known.alias ? std::string(known.name) : name;
}

std::vector<std::string> pipeline_tasks() {
  std::vector<std::string> names;
  for (const TaskRecord* task : task_records()) names.emplace_back(task->name);
  return names;
}

}  // namespace transom
