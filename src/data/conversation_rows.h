// SPDX-License-Identifier: Apache-2.0
// Files that hold chats, prompts with their completions, instructions or preferences, which are known by the names of
// their columns, and which no task may take for a column of text.
#pragma once

#include <string>

#include "transom/dataset.h"

namespace transom {

// What rows are by their columns: "chats" (messages, conversations), "prompts and completions", "instructions and
// answers" or "preferences"; empty for others.
std::string conversation_form(const Dataset& data);

// Refuses such rows in one line that says what can be done: another task, or a column that `arguments` name.
[[noreturn]] void refuse_conversations(const Dataset& data, const std::string& form, const std::string& arguments);

}  // namespace transom
