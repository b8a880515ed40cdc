// SPDX-License-Identifier: Apache-2.0
// The tokenizer classes of models of many languages: a text stands beside the token of its language.
#pragma once

#include <string>

#include "base/json/json_fwd.h"
#include "inputs/text/tokenizer_file.h"

namespace transom::text {

// Of NLLB, mBART and mBART-50: what surrounds a text, by src_lang of the configuration (or the language of the class).
// These classes, and Pegasus', make all components but vocabulary and character map themselves, whatever tokenizer.json
// has; DeBERTa's what surrounds a text. Other classes: nothing.
void apply_language_class(const Json& config, TokenizerFile& file, const std::string& where);

}  // namespace transom::text
