// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "transom/tokenizer.h"

namespace transom {

// One line of `transom tokenize`: {"text", "text_pair", "add_special_tokens"} to {"ids", "type_ids", "attention_mask",
// "offsets", "tokens", "decoded", "decoded_skip_special"}. An empty text_pair counts as none, as in Transformers.
std::string tokenize_line(const Tokenizer& tokenizer, std::string_view line, const std::string& where);

}  // namespace transom
