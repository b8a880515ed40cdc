// SPDX-License-Identifier: Apache-2.0
// A tokenizer as it is held in memory.
#pragma once

#include <map>

#include "base/files.h"
#include "text/added_tokens.h"
#include "text/components.h"
#include "text/windows.h"

namespace transom {

struct Tokenizer::State {
  std::string where;
  std::unique_ptr<text::Normalizer> normalizer;
  std::unique_ptr<text::PreTokenizer> pre_tokenizer;
  std::unique_ptr<text::TokenModel> model;
  std::unique_ptr<text::PostProcessor> post_processor;
  std::unique_ptr<text::Decoder> decoder;
  text::AddedTokens added;

  std::map<std::string, std::string, std::less<>> special;  // role -> token
  std::optional<int64_t> max_length;
  std::vector<std::string> input_names{"input_ids", "token_type_ids", "attention_mask"};
  bool pads_left = false, truncates_left = false, clean_up = false;
  int64_t pad_type_id = 0;

  std::map<std::string, std::string> files;  // what save_pretrained writes: name -> contents

  int64_t id_of(std::string_view token) const;
  std::string token_of(int64_t id) const;
  Encoding encode_alone(std::string_view text) const;  // without special tokens
};

}  // namespace transom
