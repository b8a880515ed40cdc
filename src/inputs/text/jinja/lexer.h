// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace transom::jinja {

struct Token {
  enum class Kind {
    kText,
    kBlockBegin,
    kBlockEnd,
    kOutputBegin,
    kOutputEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kSymbol,
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 0;
};

// With trim_blocks and lstrip_blocks, as Transformers sets them: the line end behind a block and the blanks in front of
// one that begins a line are no text. The last token is kEnd.
std::vector<Token> tokenize_template(std::string_view source);

}  // namespace transom::jinja
