// SPDX-License-Identifier: Apache-2.0
// Grammars in GBNF, the notation of llama.cpp: `root ::= "yes" | "no" rest`.
#pragma once

#include <string_view>

#include "work/generation/constraint/grammar/grammar.h"

namespace transom::constraint {

constexpr size_t kMostGrammarBytes = 64 * 1024;

// Throws Error that names the line.
Grammar parse_gbnf(std::string_view text);

}  // namespace transom::constraint
