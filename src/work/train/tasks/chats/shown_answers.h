// SPDX-License-Identifier: Apache-2.0
// Answers that a model writes while it is fine-tuned, beside those that its rows have.
#pragma once

#include <string>
#include <vector>

#include "transom/generation.h"
#include "transom/tokenizer.h"
#include "work/train/tasks/chats/chat_rows.h"

namespace transom {

class ShownAnswers {
 public:
  // Of the first `count` rows: what stands before the last turn of the assistant, or before a completion. Refuses rows
  // that have no prompt, and such with pictures. `chat_template` in place of the tokenizer's; empty: its own.
  ShownAnswers(const ChatRows& rows, const Tokenizer& tokenizer, const std::string& chat_template, int64_t count,
               GenerationConfig config);

  // Has the model answer, and says what it wrote beside what was wanted.
  void show(const Model& model) const;

 private:
  Tokenizer tokenizer_;
  GenerationConfig config_;
  std::vector<TokenIds> prompts_;
  std::vector<std::string> wanted_;
};

}  // namespace transom
