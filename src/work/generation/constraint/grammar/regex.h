// SPDX-License-Identifier: Apache-2.0
// Regular expressions as grammars: literals, classes, groups, alternatives and repetitions, as ECMA 262 and Python
// write them. References, look-around and word boundaries are refused by name: no automaton has them.
#pragma once

#include <string_view>

#include "work/generation/constraint/grammar/grammar.h"

namespace transom::constraint {

struct RegexOptions {
  bool in_json = false;  // the text stands between the quotes of a JSON string: what must be escaped is
  bool anchored = true;  // the whole text matches; otherwise ^ and $ say where it begins and ends
};

constexpr size_t kMostPatternBytes = 32 * 1024;

// Throws Error for what is no expression, is not supported, or is longer than kMostPatternBytes.
GrammarBuilder::Part regex_part(GrammarBuilder& builder, std::string_view pattern, const RegexOptions& options = {});
// One character of the ranges, as it stands in a JSON string.
GrammarBuilder::Part json_characters(GrammarBuilder& builder, const CodePoints& ranges);
// The ranges sorted and joined; and all characters but those.
CodePoints joined_ranges(CodePoints ranges);
CodePoints complement(const CodePoints& ranges);

}  // namespace transom::constraint
