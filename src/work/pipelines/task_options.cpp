// SPDX-License-Identifier: Apache-2.0
#include "transom/tasks.h"

namespace transom {

TaskOptions::TaskOptions(std::initializer_list<std::pair<const char*, Value>> values) {
  for (const auto& [name, value] : values) set(name, value);
}

TaskOptions& TaskOptions::set(const std::string& name, Value value) {
  values_.insert_or_assign(name, std::move(value));
  return *this;
}

const TaskOptions::Value* TaskOptions::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

void TaskOptions::erase(std::string_view name) {
  if (const auto found = values_.find(name); found != values_.end()) values_.erase(found);
}

}  // namespace transom
