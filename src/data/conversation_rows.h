// SPDX-License-Identifier: Apache-2.0
// Files that hold chats, prompts with their completions, instructions or preferences: what other trainers take by the
// names of columns, and what no task here takes yet.
#pragma once

#include <string>

#include "transom/dataset.h"

namespace transom {

// What rows are by their columns: "chats" (messages, conversations), "prompts and completions", "instructions and
// answers" or "preferences"; empty for others.
std::string conversation_form(const Dataset& data);

// Refuses such rows in one line that says what can be done: rows of input_ids and labels, or a column that `arguments`
// name.
[[noreturn]] void refuse_conversations(const Dataset& data, const std::string& form, const std::string& arguments);

}  // namespace transom
