// SPDX-License-Identifier: Apache-2.0
// Texts that a grammar allows, token by token: the TokenConstraint of JSON schemas, regular expressions, choices and
// GBNF.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transom/engine.h"
#include "transom/tokenizer.h"
#include "work/generation/constraint/tokens/token_trie.h"

namespace transom::constraint {

// The vocabulary of a model, made once for it.
struct Vocabulary {
  Vocabulary(const Tokenizer& tokenizer, std::vector<int64_t> ends);
  // The bytes of each token by its id; those that end texts have none.
  Vocabulary(const std::vector<std::string>& tokens, std::vector<int64_t> given)
      : trie(std::make_shared<TokenTrie>(tokens)), ends(std::move(given)) {}
  std::shared_ptr<const TokenTrie> trie;
  std::vector<int64_t> ends;  // the tokens that end a text
};

// kWholeJsonSchema: of a schema with all properties that it allows, those that it does not name too (json_schema.h).
enum class Kind { kJsonObject, kJsonSchema, kWholeJsonSchema, kRegex, kChoices, kGbnf, kStructuralTags };

// `text`: the schema as JSON, the expression, a JSON list of strings, the grammar, tags as structural_tags.h has them;
// at most 256 KiB. Compiled grammars are kept and shared (64 of them, by kind and text); what is new is compiled on the
// thread that asks. Any thread. Throws Error of kInput.
std::shared_ptr<const TokenConstraint> make_constraint(const std::shared_ptr<const Vocabulary>& vocabulary, Kind kind,
                                                       const std::string& text);

}  // namespace transom::constraint
