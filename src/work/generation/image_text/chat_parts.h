// SPDX-License-Identifier: Apache-2.0
// Messages whose contents are lists of parts, {"type": "text", "text"} and {"type": "image"}, and what a chat template
// makes of them.
#pragma once

#include <string>

#include "base/json/json_fwd.h"
#include "transom/tokenizer.h"

namespace transom {

// Whether the template writes the parts of a content of this role: system, user or assistant. Many know contents that
// are texts, and write a list as Python shows it, or nothing of it.
bool writes_parts(const Tokenizer& tokenizer, const ChatOptions& options, const std::string& role = "user");
// Contents as texts, for templates that know no parts: `image_token` and a line's end in place of each image, and texts
// that follow each other on lines of their own, as vLLM and llama.cpp have them.
Json joined_parts(Json messages, const std::string& image_token);
// Contents that are texts as lists of one part, for templates that go through parts.
Json listed_parts(Json messages);
// Whether the tokenizer adds its special tokens to a chat that the template has written: processors let it, unless the
// text begins with the first of them.
bool adds_special_tokens(const std::string& prompt, const Tokenizer& tokenizer);
// In the form that the template writes.
Json fitting_parts(const Json& messages, const Tokenizer& tokenizer, const ChatOptions& options,
                   const std::string& image_token);

// Of a model that reads texts alone: contents that are lists of texts in the form that the template writes. Chats
// without such lists stay what they are; a picture is refused.
Json fitting_texts(const Json& messages, const Tokenizer& tokenizer, const ChatOptions& options);

// A chat as a model that sees pictures reads it.
struct WrittenChat {
  std::string text;
  bool adds_special_tokens;  // whether the tokenizer is to add its own
};
WrittenChat written_chat(const Json& messages, const Tokenizer& tokenizer, const ChatOptions& options,
                         const std::string& image_token);

}  // namespace transom
