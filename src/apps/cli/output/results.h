// SPDX-License-Identifier: Apache-2.0
// Results of tasks as people read them: columns, and numbers of four digits.
#pragma once

#include <string>

#include "transom/tasks.h"

namespace transom {

// Of sentences the input says what is shown.
void show_result(const TaskInput& input, const TaskResult& result, const std::string& indent = "");
// With the name of the input that it belongs to above it.
void show_named_result(const std::string& name, const TaskInput& input, const TaskResult& result);

}  // namespace transom
