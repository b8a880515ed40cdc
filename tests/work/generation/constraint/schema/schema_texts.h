// SPDX-License-Identifier: Apache-2.0
// Which texts the grammar of a schema writes.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json/json.h"
#include "work/generation/constraint/schema/json_schema.h"
#include "work/generation/constraint/tokens/automaton.h"
#include "work/generation/constraint/tokens/token_masks.h"

namespace transom::constraint {

inline Grammar grammar_of(const std::string& text) { return json_schema_grammar(parse_json(text, "test")); }

inline Places behind_text(const Grammar& grammar, Stacks& stacks, Places places, const std::string& text) {
  for (const char byte : text) places = behind(grammar, stacks, places, static_cast<uint8_t>(byte));
  return places;
}

inline bool writes(const Grammar& grammar, const std::string& text) {
  Stacks stacks;
  const Places start = start_of(grammar, stacks);
  return behind_text(grammar, stacks, start, text).ended;
}

// The tokens that the mask of a state allows, which must be what reading every token by itself says.
inline std::vector<size_t> expect_mask(const CompiledGrammar& compiled, Stacks& stacks, const Places& places,
                                       const std::vector<std::string>& tokens) {
  const auto mask = compiled.allowed(places, stacks);
  std::vector<size_t> possible;
  for (size_t token = 0; token < tokens.size(); ++token) {
    const bool expected =
        !tokens[token].empty() && !behind_text(compiled.grammar(), stacks, places, tokens[token]).dead();
    EXPECT_EQ(((*mask)[token / 32] >> (token % 32) & 1) != 0, expected) << "token " << tokens[token];
    if (expected) possible.push_back(token);
  }
  return possible;
}

inline void expect_texts(const std::string& schema, const std::vector<std::string>& good,
                         const std::vector<std::string>& bad) {
  const Grammar grammar = grammar_of(schema);
  for (const std::string& text : good) EXPECT_TRUE(writes(grammar, text)) << schema << "\n" << text;
  for (const std::string& text : bad) EXPECT_FALSE(writes(grammar, text)) << schema << "\n" << text;
}

}  // namespace transom::constraint
