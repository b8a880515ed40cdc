// SPDX-License-Identifier: Apache-2.0
// What a tokenizer.json holds: the large tables of its model, read with simdjson, and the rest as JSON.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json_fwd.h"
#include "inputs/text/token_models/vocabulary.h"

namespace transom::text {

struct TokenizerFile {
  TokenizerFile();
  ~TokenizerFile();
  TokenizerFile(TokenizerFile&&) noexcept;
  TokenizerFile& operator=(TokenizerFile&&) noexcept;

  std::unique_ptr<Json> rest;  // all fields but the model's "vocab" and "merges"
  std::unique_ptr<Vocabulary> vocabulary;
  std::vector<double> scores;  // of a Unigram model, by id
  std::vector<std::pair<std::string, std::string>> merges;
};

// From the text of the file; `where` names it in errors.
TokenizerFile read_tokenizer_json(std::string_view text, const std::string& where);

// vocab.json: {"token": id, ...}, with a `rest` that names no component.
TokenizerFile read_vocabulary_json(std::string_view text, const std::string& where);

// vocab.txt with a token a line, as the tokenizer.json of a BERT model. `config` is tokenizer_config.json.
TokenizerFile read_bert_vocabulary(std::string_view text, const Json& config, const std::string& where);

}  // namespace transom::text
