// SPDX-License-Identifier: Apache-2.0
// Tokenizing as a filter: one JSON line in, one JSON line out.
#pragma once

#include <string>
#include <string_view>

#include "transom/tokenizer.h"

namespace transom {

// {"text", "text_pair" (null or empty: none), "add_special_tokens" (true)} becomes {"ids", "type_ids",
// "attention_mask", "offsets", "tokens", "decoded", "decoded_skip_special"}, ASCII only. `where` names the line in
// errors.
std::string tokenize_line(const Tokenizer& tokenizer, std::string_view line, const std::string& where);

}  // namespace transom
