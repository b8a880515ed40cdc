// SPDX-License-Identifier: Apache-2.0
// How models mark what they think before they answer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "transom/tokenizer.h"

namespace transom::serve {

struct ReasoningForm {
  std::string_view open, close;
  // What stands before the answer, at its beginning or behind the thoughts; empty: nothing does.
  std::string_view answer = "", answer_behind = "";
  // What ends thoughts that take too long and leads to the answer.
  std::string_view forced_close;
};

std::span<const ReasoningForm> reasoning_forms();
// The form whose marks the chat template (empty: there is none) or the vocabulary knows. Null: this model shows no
// thoughts.
const ReasoningForm* reasoning_form_of(const Tokenizer& tokenizer, std::string_view chat_template);
// Whether the prompt ends with the opening mark, so that the answer begins within the thoughts.
bool begins_in_thoughts(std::string_view prompt, const ReasoningForm& form);

// What is known of an answer before its first token.
struct ThoughtStart {
  const ReasoningForm* form = nullptr;  // null: thoughts are not told from the text
  bool begun = false;
};

}  // namespace transom::serve
