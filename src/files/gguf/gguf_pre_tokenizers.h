// SPDX-License-Identifier: Apache-2.0
// How vocabularies of byte pairs cut text before merging, by the names of tokenizer.ggml.pre: those of
// llama_vocab::impl::load in https://github.com/ggml-org/llama.cpp/blob/master/src/llama-vocab.cpp
#pragma once

#include <string>
#include <vector>

#include "base/json/json_fwd.h"

namespace transom {

struct GgufPreTokenizer {
  std::vector<const char*> names;
  // Regular expressions, one after the other: each match is a piece, and so is what stands between two matches.
  std::vector<const char*> patterns;
  bool ignores_merges = false;  // a piece that is a token is not taken apart
  bool adds_bos = false;        // where add_bos_token is not stored
  bool composes = false;        // NFC first, as the models' own tokenizers do; llama.cpp leaves it out
  bool separates = false;       // a second text comes behind eos twice (RoBERTa)
  bool raw = false;             // pieces are UTF-8 with ▁ for spaces, unknown characters are tokens of their bytes
};

// GPT-2's own, which tokenizer.json calls ByteLevel.
extern const char* const kGgufGpt2Pattern;

// An unknown name is an error that begins with `where` and lists what is near.
const GgufPreTokenizer& gguf_pre_tokenizer(const std::string& name, const std::string& where);
// The "pre_tokenizer" of tokenizer.json that cuts so.
Json gguf_pre_tokenizer_json(const GgufPreTokenizer& kind);
// The name for what tokenizer.json says; an error where llama.cpp has none.
std::string gguf_pre_tokenizer_name(const Json& tokenizer);

}  // namespace transom
