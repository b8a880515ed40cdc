// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/reasoning/reasoning_form.h"

namespace transom::serve {
namespace {

constexpr ReasoningForm kForms[] = {
    {.open = "<think>", .close = "</think>", .forced_close = "</think>"},
    {.open = "[THINK]", .close = "[/THINK]", .forced_close = "[/THINK]"},
    {.open = "<seed:think>", .close = "</seed:think>", .forced_close = "</seed:think>"},
    {.open = "<|START_THINKING|>", .close = "<|END_THINKING|>", .forced_close = "<|END_THINKING|>"},
    // Harmony's channels.
    {.open = "<|channel|>analysis<|message|>",
     .close = "<|end|>",
     .answer = "<|channel|>final<|message|>",
     .answer_behind = "<|start|>assistant<|channel|>final<|message|>",
     .forced_close = "<|end|><|start|>assistant<|channel|>final<|message|>"},
};

}  // namespace

std::span<const ReasoningForm> reasoning_forms() { return kForms; }

const ReasoningForm* reasoning_form_of(const Tokenizer& tokenizer, std::string_view chat_template) {
  for (const ReasoningForm& form : kForms) {
    // The opening mark of harmony is several tokens, its first one is a mark of no other.
    const std::string_view first = form.open.substr(0, form.open.find_first_of(">]") + 1);
    if (chat_template.find(first) != chat_template.npos || tokenizer.token_to_id(first)) return &form;
  }
  return nullptr;
}

bool begins_in_thoughts(std::string_view prompt, const ReasoningForm& form) {
  const size_t last = prompt.find_last_not_of(" \t\r\n");
  return last != prompt.npos && prompt.substr(0, last + 1).ends_with(form.open);
}

}  // namespace transom::serve
