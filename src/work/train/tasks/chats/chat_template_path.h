// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "transom/tokenizer.h"

namespace transom {

// The template of --chat_template_path: that of a file of Jinja (.jinja, .j2), or of a directory with a tokenizer,
// whose added tokens `tokenizer` must have.
std::string read_chat_template(const std::string& path, const Tokenizer& tokenizer);

}  // namespace transom
