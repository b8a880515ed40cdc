// SPDX-License-Identifier: Apache-2.0
// Rows of files that hold chats, prompts with completions, instructions with answers, or plain text, as the messages or
// texts that supervised fine-tuning trains on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "transom/dataset.h"
#include "transom/training_arguments.h"
#include "work/train/tasks/chats/chat_pictures.h"
#include "work/train/tasks/chats/row_values.h"

namespace transom {

// What the columns of a file say that its rows are.
enum class ChatForm {
  kMessages,          // messages, conversations: one list of messages
  kPromptCompletion,  // prompt and completion: texts, or lists of messages
  kInstruction,       // instruction, input and output: Alpaca's columns
  kText,              // one column of text
};

// A list of messages, or a text. Where `prompt` is null, all of the row is in `completion`.
struct ChatRow {
  Json prompt, completion;
  std::string tools;      // JSON, as ChatOptions takes them; empty: none
  std::string variables;  // the same of the template's further variables
  std::vector<std::string> pictures =
      {};  // files or data: URLs, in the order of their places in the prompt, or the row
  bool is_chat() const { return completion.is_array(); }
};

// A cheap handle; rows may be read from several threads.
class ChatRows {
 public:
  // Finds the columns, by the arguments and by the names that other trainers know. `writes_chats`: the tokenizer has a
  // chat template, so that instructions become messages; else they become text in the form of Alpaca. `sees_pictures`:
  // rows may have them.
  ChatRows(Dataset data, const ScriptArguments& script, bool writes_chats, bool sees_pictures = false);

  ChatForm form() const { return form_; }
  bool has_prompts() const { return form_ == ChatForm::kPromptCompletion || form_ == ChatForm::kInstruction; }
  const Dataset& data() const { return data_; }
  // Whether there is a column of pictures, or any of the messages has one.
  bool has_pictures() const;
  // "chats: column messages", for the line that says what a run reads.
  std::string reads() const;
  // Throws, with the file and the row, what no trainer should learn: a message without role or content, a role that
  // nobody knows, a call of a tool that is broken, a chat in which the assistant says nothing.
  ChatRow row(int64_t index) const;

 private:
  std::string reads_texts() const;
  std::string text(const Row& row, size_t column, int64_t index) const;
  Json messages_of(const Json& value, const std::string& where) const;
  ChatRow instruction(const Row& row, int64_t index) const;
  void find_pictures(ChatRow& result, const Row& row, const std::string& where) const;

  Dataset data_;
  bool writes_chats_;
  ChatForm form_ = ChatForm::kText;
  size_t first_ = 0, second_ = 0;  // messages, prompt, instruction or text; completion or output
  std::optional<size_t> input_;
  TemplateColumns template_columns_;
  bool sees_pictures_ = false;
  PictureColumn pictures_;
};

}  // namespace transom
