// SPDX-License-Identifier: Apache-2.0
// Tokenizing as a filter: one JSON line in, one JSON line out.
#pragma once

#include <string>
#include <string_view>

#include "transom/tokenizer.h"

namespace transom {

// {"text", "text_pair" (null or empty: none), "add_special_tokens" (true)} becomes {"ids", "type_ids",
// "attention_mask", "offsets", "tokens", "decoded", "decoded_skip_special"}, ASCII only; the offsets are null where
// Transformers gives none. In place of the text a line may have the "messages" of a chat, with "add_generation_prompt",
// "continue_final_message", "chat_template", "tools", "documents", "chat_template_kwargs": the result has its "text"
// besides, and no special tokens are added to it. `where` names the line in errors.
std::string tokenize_line(const Tokenizer& tokenizer, std::string_view line, const std::string& where);

}  // namespace transom
