// SPDX-License-Identifier: Apache-2.0
// From the texts or messages of preferences to tokens, as TRL's trainers make them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transom/tokenizer.h"
#include "work/train/tasks/preferences/preference_rows.h"

namespace transom {

// A prompt and what follows it.
struct PromptedTokens {
  std::vector<int64_t> ids;
  size_t prompt = 0;  // so many of the ids are the prompt's
};

struct PairTokens {
  PromptedTokens chosen, rejected;
  // The end of the prompt, where it is written otherwise alone than before an answer: so many of its tokens are not
  // among the ids.
  size_t changed_prompt_tokens = 0;
};

struct AnswerTokens {
  PromptedTokens answer;
  size_t changed_prompt_tokens = 0;
};

// Safe from all threads. `where` names the row in errors.
class PreferenceEncoder {
 public:
  // `chat_template` in place of the tokenizer's; empty: that. `eos_token` ends texts.
  PreferenceEncoder(Tokenizer tokenizer, std::string chat_template, std::string eos_token);

  // DPOTrainer: an answer begins where the tokens of prompt and of prompt with answer part, alike for both.
  PairTokens pair(const PreferenceRow& row, const std::string& where) const;
  // KTOTrainer: the same of one answer.
  AnswerTokens answer(const AnswerRow& row, const std::string& where) const;
  // RewardTrainer: prompts and answers as one.
  PairTokens whole(const PreferenceRow& row, const std::string& where) const;
  // CPOTrainer and ORPOTrainer: the text of a chat is cut into prompt and answer first; a beginning and an end that
  // are not there are added, and no other special tokens.
  PairTokens cut(const PreferenceRow& row, const std::string& where) const;

  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  std::vector<int64_t> tokens_of(const Json& first, const Json& second, bool opens, const std::string& tools,
                                 const std::string& variables) const;
  std::string text_of(const Json& first, const Json& second, const ChatOptions& options) const;

  Tokenizer tokenizer_;
  std::string chat_template_, eos_token_;
};

}  // namespace transom
