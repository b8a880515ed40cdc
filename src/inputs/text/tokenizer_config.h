// SPDX-License-Identifier: Apache-2.0
// What tokenizer_config.json (and special_tokens_map.json) say of a tokenizer.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "inputs/text/components/added_tokens.h"
#include "inputs/text/token_models/vocabulary.h"

namespace transom::text {

struct TokenizerConfig {
  std::map<std::string, std::string, std::less<>> special_tokens;  // by role: "pad", "cls", ...
  std::vector<std::string> additional_special_tokens;
  std::vector<AddedToken> added_tokens_decoder;
  std::vector<AddedToken> older_added_tokens;  // of added_tokens.json, by id; read where there is no decoder
  std::optional<int64_t> model_max_length;
  std::vector<std::string> model_input_names;
  Side padding_side = Side::kRight, truncation_side = Side::kRight;
  bool clean_up = false;
  bool suffix_ends_word =
      false;  // decode() writes a space for the model's end_of_word_suffix, as CLIP's tokenizer does
};

TokenizerConfig read_tokenizer_config(const Json& json, const std::string& where);

// Adds the tokens that the configuration names and `tokens` lacks, with new ids for those that the vocabulary lacks
// too.
void add_special_tokens(const TokenizerConfig& config, const Vocabulary& vocabulary, std::vector<AddedToken>& tokens);

}  // namespace transom::text
