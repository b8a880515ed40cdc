// SPDX-License-Identifier: Apache-2.0
// The components that a tokenizer.json is made of. Each kind has one parser, by the component's "type"; to add one,
// define it beside its kin and enter it in the list of that file.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "text/aligned_text.h"
#include "transom/tokenizer.h"

namespace transom::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(AlignedText& text) const = 0;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(AlignedText& text) const = 0;
};

// A token of a word: its id and the bytes of the word that it covers.
struct ModelToken {
  int64_t id;
  uint32_t begin, end;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual void tokenize(std::string_view word, std::vector<ModelToken>& out) const = 0;
  virtual int64_t id_of(std::string_view token) const = 0;  // -1: unknown
  virtual std::string token_of(int64_t id) const = 0;       // empty: unknown
  virtual int64_t size() const = 0;
};

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual size_t added_tokens(bool pair) const = 0;
  // The type of the pair's tokens where no special tokens are added.
  virtual int64_t pair_type_id() const { return 1; }
  // Joins text and pair (null: none) with special tokens.
  virtual Encoding process(const Encoding& text, const Encoding* pair) const = 0;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual std::vector<std::string> decode(std::vector<std::string> tokens) const = 0;
};

// Null JSON gives a null pointer. `where` names the file in errors.
std::unique_ptr<Normalizer> parse_normalizer(const Json& json, const std::string& where, int depth = 0);
std::unique_ptr<PreTokenizer> parse_pre_tokenizer(const Json& json, const std::string& where, int depth = 0);
// The vocabulary comes apart from the rest of the model: it is large, and Json is made for small objects.
using VocabularyEntries = std::vector<std::pair<std::string, int64_t>>;
std::unique_ptr<TokenModel> parse_model(const Json& json, VocabularyEntries vocabulary, const std::string& where);
std::unique_ptr<PostProcessor> parse_post_processor(const Json& json, const std::string& where);
std::unique_ptr<Decoder> parse_decoder(const Json& json, const std::string& where, int depth = 0);

// The type of a component; an error for JSON that is none.
std::string component_type(const Json& json, const std::string& where);
bool flag(const Json& json, const char* name, bool otherwise);
[[noreturn]] void unknown_component(const std::string& kind, const std::string& type,
                                    const std::vector<std::string>& known, const std::string& where);
constexpr int kMaximumDepth = 16;  // of Sequences inside Sequences

// Adds a special token without offsets to an encoding.
void append_special(Encoding& encoding, int64_t id, const std::string& token, int64_t type_id);
// Adds all tokens of another encoding, with this type id and sequence.
void append_sequence(Encoding& encoding, const Encoding& from, int64_t type_id, int64_t sequence);

}  // namespace transom::text
