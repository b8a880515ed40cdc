// SPDX-License-Identifier: Apache-2.0
// What the tokenizer classes of Transformers make of their options: fields of tokenizer_config.json that change
// components of tokenizer.json.
#pragma once

#include <string>

#include "base/json/json_fwd.h"

namespace transom::text {

// Puts do_lower_case, strip_accents and tokenize_chinese_chars of BERT's classes into the normaliser of `tokenizer`
// (without them the classes' defaults), and add_prefix_space of the byte-level classes into pre-tokenizer and
// post-processor. `where` names the configuration in errors.
void apply_class_options(const Json& config, Json& tokenizer, const std::string& where);

// The class of a tokenizer without "Tokenizer": "Bert", "GPT2". Where the configuration does not name it, that of the
// model type (config.json's, may be empty); "" if neither tells.
std::string tokenizer_family(const Json& config, const std::string& model_type, const std::string& where);

// The special tokens that the configuration of a class does not name: those that its class has then.
void name_special_tokens(const std::string& family, Json& config);
// Those of a vocab.txt: MPNet's or BERT's, all as plain texts.
void name_bert_tokens(Json& config, const std::string& where);

}  // namespace transom::text
