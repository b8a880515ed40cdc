// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/chat_rows.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "inputs/data/columns.h"
#include "inputs/data/text/conversation_rows.h"
#include "work/train/tasks/chats/messages.h"

namespace transom {
namespace {

// Stanford Alpaca's prompts, which models without a chat template are used to.
constexpr std::string_view kAlpacaWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
    "response that appropriately completes the request.\n\n### Instruction:\n{}\n\n### Input:\n{}\n\n### Response:\n";
constexpr std::string_view kAlpaca =
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{}\n\n### Response:\n";

std::optional<size_t> first_of(const Dataset& data, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto found = data.find(name)) return found;
  return std::nullopt;
}

}  // namespace

ChatRows::ChatRows(Dataset data, const ScriptArguments& script, bool writes_chats, bool sees_pictures)
    : data_(with_texts_as_written(std::move(data),
                                  {"prompt", "completion", "response", "instruction", "input", "output", "system"})),
      writes_chats_(writes_chats),
      template_columns_(data_),
      sees_pictures_(sees_pictures),
      pictures_(data_) {
  if (!sees_pictures_ && pictures_.has_any(data_))
    fail(ErrorKind::kUnsupported, "{}: column {}: the model sees no pictures; leave the column out", data_.name(),
         pictures_.name());
  if (!sees_pictures_) pictures_ = PictureColumn();  // a column of nulls
  std::optional<size_t> messages;
  for (const std::string_view name : kMessageColumns)
    if (!messages) messages = data_.find(name);
  const auto prompt = data_.find("prompt"), completion = first_of(data_, {"completion", "response"});
  const auto instruction = data_.find("instruction"), output = first_of(data_, {"output", "response"});
  if (script.text_column_name) {
    first_ = need_column(data_, *script.text_column_name, "--text_column_name");
  } else if (messages) {
    form_ = ChatForm::kMessages;
    first_ = *messages;
  } else if (prompt && completion) {
    form_ = ChatForm::kPromptCompletion;
    first_ = *prompt, second_ = *completion;
  } else if (instruction && output) {
    form_ = ChatForm::kInstruction;
    first_ = *instruction, second_ = *output;
    input_ = data_.find("input");
  } else if (const auto column = data_.find("text")) {
    first_ = *column;
  } else if (data_.columns().size() == 1) {
    first_ = 0;
  } else {
    fail(
        "{}: expected a column messages (or conversations), prompt and completion, instruction and output, or text; "
        "found {}; name a column of text with --text_column_name",
        data_.name(), fmt::join(column_names(data_), ", "));
  }
  if (form_ == ChatForm::kText) data_ = data_.with_text(first_);
}

bool ChatRows::has_pictures() const {
  if (pictures_.is_there()) return true;
  if (!sees_pictures_ || form_ == ChatForm::kText || form_ == ChatForm::kInstruction) return false;
  for (int64_t i = 0; i < data_.size(); ++i)
    if (!row(i).pictures.empty()) return true;
  return false;
}

std::string ChatRows::reads() const {
  return pictures_.is_there() ? fmt::format("{}; pictures: column {}", reads_texts(), pictures_.name()) : reads_texts();
}

std::string ChatRows::reads_texts() const {
  const auto name = [&](size_t column) { return data_.columns()[column].name; };
  switch (form_) {
    case ChatForm::kMessages:
      return fmt::format("chats: column {}", name(first_));
    case ChatForm::kPromptCompletion:
      return fmt::format("prompts: column {}; completions: column {}", name(first_), name(second_));
    case ChatForm::kInstruction:
      return fmt::format("instructions: column {}{}; answers: column {}", name(first_), input_ ? " with input" : "",
                         name(second_));
    case ChatForm::kText:
      return fmt::format("text: column {}", name(first_));
  }
  return {};
}

std::string ChatRows::text(const Row& row, size_t column, int64_t index) const {
  const Json value = json_of(row[column], data_.where(index));
  if (value.is_null() && column == input_) return "";
  require(value.is_string(), "{}, column {}: expected a text, found {}", data_.where(index),
          data_.columns()[column].name, quoted(dump_json(value)));
  return value.get<std::string>();
}

ChatRow ChatRows::instruction(const Row& row, int64_t index) const {
  const std::string asked = text(row, first_, index), answer = text(row, second_, index);
  const std::string input = input_ ? text(row, *input_, index) : "", system = text_beside(data_, row, "system", index);
  require(!asked.empty() || !input.empty(), "{}: expected an instruction, found none", data_.where(index));
  if (const auto history = data_.find("history")) {
    const Json turns = json_of(row[*history], data_.where(index));
    require(turns.is_null() || turns.empty() || turns == "" || turns == "[]",
            "{}, column history: turns beside an instruction are not read: write the row as messages",
            data_.where(index));
  }
  ChatRow result;
  if (!writes_chats_) {
    require(system.empty(),
            "{}: a system text needs a chat template, and the tokenizer has none: give one with "
            "--chat_template_path",
            data_.where(index));
    result.prompt = input.empty() ? fmt::format(fmt::runtime(kAlpaca), asked)
                                  : fmt::format(fmt::runtime(kAlpacaWithInput), asked, input);
    result.completion = answer;
    return result;
  }
  result.prompt = Json::array();
  if (!system.empty()) result.prompt.push_back({{"role", "system"}, {"content", system}});
  const std::string whole = input.empty() ? asked : asked.empty() ? input : asked + "\n" + input;
  result.prompt.push_back({{"role", "user"}, {"content", whole}});
  result.completion = Json::array({{{"role", "assistant"}, {"content", answer}}});
  return result;
}

// Those of rows with a prompt stand in that.
void ChatRows::find_pictures(ChatRow& result, const Row& row, const std::string& where) const {
  std::vector<std::string> names = pictures_.pictures(row, where);
  Json& seen = result.prompt.is_null() ? result.completion : result.prompt;
  if (seen.is_array()) names = place_pictures(seen, std::move(names), where);
  result.pictures = found_pictures(std::move(names), data_, where);
  if (result.prompt.is_null() || !result.completion.is_array()) return;
  for (const Json& message : result.completion)
    for (const Json& part : message["content"].is_array() ? message["content"] : Json::array())
      require(!is_picture_part(part), "{}: completion: expected pictures in the prompt alone", where);
}

ChatRow ChatRows::row(int64_t index) const {
  const Row row = data_.row(index);
  const std::string where = data_.where(index);
  ChatRow result;
  switch (form_) {
    case ChatForm::kMessages: {
      const Json messages = json_of_cell(data_, row, first_, index);
      require(messages.is_array(), "{}, column {}: expected a list of messages, found {}", where,
              data_.columns()[first_].name, messages.is_null() ? "nothing" : messages.type_name());
      result.completion = plain_messages(messages, where, sees_pictures_);
      put_system_text(result.completion, text_beside(data_, row, "system", index), where);
      break;
    }
    case ChatForm::kPromptCompletion: {
      result.prompt = json_of_cell(data_, row, first_, index),
      result.completion = json_of_cell(data_, row, second_, index);
      require(result.prompt.is_array() == result.completion.is_array() &&
                  (result.prompt.is_array() || (result.prompt.is_string() && result.completion.is_string())),
              "{}: expected a prompt and a completion that are both texts or both lists of messages, found {} and {}",
              where, result.prompt.type_name(), result.completion.type_name());
      if (result.prompt.is_array()) result.prompt = plain_messages(result.prompt, where + ", prompt", sees_pictures_);
      put_system_text(result.prompt, text_beside(data_, row, "system", index), where);
      if (!result.prompt.is_array()) break;
      result.completion = plain_messages(result.completion, where + ", completion");
      break;
    }
    case ChatForm::kInstruction:
      result = instruction(row, index);
      break;
    case ChatForm::kText:
      result.completion = text(row, first_, index);
      break;
  }
  if (result.is_chat())
    require(has_assistant_turn(result.completion), "{}: expected a message of the assistant to learn, found none",
            where);
  if (sees_pictures_) find_pictures(result, row, where);
  result.tools = template_columns_.tools(row, where);
  result.variables = template_columns_.variables(row, where);
  return result;
}

}  // namespace transom
