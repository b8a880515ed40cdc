// SPDX-License-Identifier: Apache-2.0
// Components of tokenizer classes, as JSON in the form of tokenizer.json.
#pragma once

#include <string>
#include <vector>

#include "base/json/json.h"
#include "inputs/text/token_models/vocabulary.h"

namespace transom::text {

// ["</s>", 2] for "eos_token". An error if the configuration or the vocabulary lacks it.
Json pair_of(const std::string& role, const Json& config, const Vocabulary& vocabulary, const std::string& where);

// before, text, after; of a pair also the second text, and after it `after` again if `twice`.
Json template_of(const std::vector<std::string>& before, const std::vector<std::string>& after, bool twice,
                 const Vocabulary& vocabulary, const std::string& where);

// The beginning and end tokens that add_bos_token and add_eos_token ask for, around each text.
Json begin_and_end(const Json& config, const Vocabulary& vocabulary, const std::string& where);

// The special tokens of the configuration, with new ids for those that the vocabulary lacks, and the tokens of
// added_tokens.json if `config` has them.
Json named_tokens(const Json& config, const Vocabulary& vocabulary, const std::string& where);

}  // namespace transom::text
