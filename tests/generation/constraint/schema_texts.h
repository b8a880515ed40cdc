// SPDX-License-Identifier: Apache-2.0
// Which texts the grammar of a schema writes.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "generation/constraint/automaton.h"
#include "generation/constraint/json_schema.h"

namespace transom::constraint {

inline Grammar grammar_of(const std::string& text) { return json_schema_grammar(parse_json(text, "test")); }

inline bool writes(const Grammar& grammar, const std::string& text) {
  Stacks stacks;
  Places places = start_of(grammar, stacks);
  for (const char byte : text) places = behind(grammar, stacks, places, static_cast<uint8_t>(byte));
  return places.ended;
}

inline void expect_texts(const std::string& schema, const std::vector<std::string>& good,
                         const std::vector<std::string>& bad) {
  const Grammar grammar = grammar_of(schema);
  for (const std::string& text : good) EXPECT_TRUE(writes(grammar, text)) << schema << "\n" << text;
  for (const std::string& text : bad) EXPECT_FALSE(writes(grammar, text)) << schema << "\n" << text;
}

}  // namespace transom::constraint
