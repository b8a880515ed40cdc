// SPDX-License-Identifier: Apache-2.0
// Files that hold chats, prompts with their completions, instructions or preferences, which are known by the names of
// their columns, and which no task may take for a column of text.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "transom/dataset.h"

namespace transom {

// The columns that hold a list of messages a row, by their names.
inline constexpr std::array<std::string_view, 5> kMessageColumns = {"messages", "conversations", "conversation", "chat",
                                                                    "dialogue"};
// Whether a cell of text begins as JSON's list of objects does: messages in a CSV file.
bool is_list_of_objects(std::string_view text);

// What rows are by their columns: "chats" (messages, conversations), "prompts and completions", "instructions and
// answers", "preferences" (chosen, rejected) or "rated answers" (prompt, completion, label); empty for others.
std::string conversation_form(const Dataset& data);

// Refuses such rows in one line that says what can be done: another task, or a column that `arguments` name.
[[noreturn]] void refuse_conversations(const Dataset& data, const std::string& form, const std::string& arguments);

// Where rows are for no task: refuses a column messages (or conversations) that holds no lists of messages, by its
// first row.
void expect_lists_of_messages(const Dataset& data);

}  // namespace transom
