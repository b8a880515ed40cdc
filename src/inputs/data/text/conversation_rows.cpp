// SPDX-License-Identifier: Apache-2.0
#include "inputs/data/text/conversation_rows.h"

#include <algorithm>

#include "base/error.h"
#include "inputs/data/columns.h"

namespace transom {
namespace {

// A list of messages: of a JSON file, or as JSON in a cell of a CSV file.
bool holds_messages(const Dataset& data, size_t column) {
  if (data.columns()[column].type == ColumnType::kJson) return true;
  if (data.columns()[column].type != ColumnType::kString || data.size() == 0) return false;
  const Value value = data.row(0)[column];
  const auto* text = std::get_if<std::string>(&value);
  return text && is_list_of_objects(*text);
}

}  // namespace

bool is_list_of_objects(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos || text[begin] != '[') return false;
  const size_t next = text.find_first_not_of(" \t\r\n", begin + 1);
  return next != text.npos && text[next] == '{';
}

std::string conversation_form(const Dataset& data) {
  const auto has = [&](std::string_view name) { return data.find(name).has_value(); };
  if (has("chosen") && has("rejected")) return "preferences";
  if (has("prompt") && has("completion") && has("label")) return "rated answers";
  for (size_t i = 0; i < data.columns().size(); ++i) {
    const std::string& name = data.columns()[i].name;
    const bool chat = name == "prompt" || name == "completion" ||
                      std::find(kMessageColumns.begin(), kMessageColumns.end(), name) != kMessageColumns.end();
    if (chat && holds_messages(data, i)) return "chats";
  }
  if (has("prompt") && (has("completion") || has("response"))) return "prompts and completions";
  if (has("instruction") && (has("output") || has("response"))) return "instructions and answers";
  return "";
}

void refuse_conversations(const Dataset& data, const std::string& form, const std::string& arguments) {
  const std::string names = fmt::format("{}", fmt::join(column_names(data), ", "));
  if (form == "preferences")
    fail(
        "{}: found preferences (columns {}), which --task dpo, kto, orpo or cpo train a policy on, and --task reward a "
        "reward model; name one of them, or for another task one column of text with {}",
        data.name(), names, arguments);
  if (form == "rated answers")
    fail(
        "{}: found prompts with answers and a label (columns {}), which --task kto trains on as good and bad answers, "
        "and --task sft without their labels; name one of them, or one column of text with {}",
        data.name(), names, arguments);
  fail("{}: found {} (columns {}), which --task sft trains on; for another task name one column of text with {}",
       data.name(), form, names, arguments);
}

void expect_lists_of_messages(const Dataset& data) {
  for (const char* name : {"messages", "conversations"}) {
    const auto column = data.find(name);
    if (!column || data.size() == 0 || holds_messages(data, *column)) continue;
    const ColumnType type = data.columns()[*column].type;
    const bool list = type == ColumnType::kStrings || type == ColumnType::kInts || type == ColumnType::kFloats;
    if (!list && type != ColumnType::kString) continue;
    fail(
        "{}: column {}: expected a list of messages, objects with role and content, found {}; --task sft trains on "
        "such lists, and for texts name a task or the column of their labels with --label_column_name",
        data.where(0), name, list ? "a list without them" : "a text");
  }
}

}  // namespace transom
