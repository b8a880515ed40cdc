// SPDX-License-Identifier: Apache-2.0
// The parts of a tokenizer.json, in the order of processing, and the functions that make them from its JSON. Each
// family is one file; a component that a file does not know is refused by its name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fwd.h"
#include "inputs/text/unicode/aligned_text.h"
#include "transom/tokenizer.h"

namespace transom::text {

// Rewrites the text before it is cut: case, accents, compatibility forms.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

// Cuts the normalised text into the pieces that the model sees one by one.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
};

// A token of a piece, and its bytes in it.
struct ModelToken {
  int64_t id = 0;
  uint32_t begin = 0, end = 0;
};

// Makes tokens of a piece. Safe to call from several threads.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const = 0;
};

// Adds special tokens around one sequence or two, and sets the type ids.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual size_t added_tokens(bool pair) const = 0;
  // `parts` holds one encoding or two; they come back with what has been added, to be joined in order.
  virtual void apply(std::vector<Encoding>& parts, bool add_special_tokens) const = 0;
};

// Makes text of tokens: the results of the last decoder are joined.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

// All of them. Null: a step that is not taken; the model is always there.
struct Components {
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<Decoder> decoder;
};

struct TokenizerFile;

// Each takes the JSON of one component (null: none, and a null pointer), and `where` for errors.
std::unique_ptr<Normalizer> make_normalizer(const Json& json, const std::string& where, int depth = 0);
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& json, const std::string& where, int depth = 0);
std::unique_ptr<PostProcessor> make_post_processor(const Json& json, const std::string& where, int depth = 0);
std::unique_ptr<Decoder> make_decoder(const Json& json, const std::string& where, int depth = 0);
// The model refers to the vocabulary of `file`, which outlives it.
std::unique_ptr<TokenModel> make_token_model(const TokenizerFile& file, const std::string& where);

}  // namespace transom::text
