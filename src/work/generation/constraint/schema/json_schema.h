// SPDX-License-Identifier: Apache-2.0
// JSON Schema (draft 2020-12, and what older drafts name otherwise) as a grammar of texts that are valid against it.
//
// Properties come in the order of the schema; other properties behind them, and only where additionalProperties or
// patternProperties ask for them, or `writes_others` does. Between parts stands at most one space, so that no model
// writes blanks for ever. allOf, and what stands beside $ref, anyOf and oneOf, is merged (merge.h). A keyword that the
// grammar cannot keep is refused by name; one that only describes is ignored. https://json-schema.org/draft/2020-12
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json/json_fwd.h"
#include "work/generation/constraint/grammar/grammar.h"

namespace transom::constraint {

// Throws Error that names the place in the schema and what it holds.
Grammar json_schema_grammar(const Json& schema, bool writes_others = false);
// Any JSON object.
Grammar json_object_grammar();

// ---- parts of numbers, json_numbers.cpp

// A limit: whole part and digits behind the point, without zeros at the end, of its absolute value.
struct DecimalLimit {
  bool negative = false;
  int64_t whole = 0;
  std::string fraction;
  bool excluded = false;  // the limit itself
};
struct NumberLimits {
  std::optional<DecimalLimit> least, most;
};
// The limits of a schema of numbers.
NumberLimits limits_in(const Json& schema, const std::string& where);
// Whole numbers within the limits, of at most 18 digits. Matches nothing where there is none.
GrammarBuilder::Part integer_part(GrammarBuilder& builder, const NumberLimits& limits);
// Numbers within the limits, with at most so many digits behind the point, beside limits fewer. Exponents only without
// limits.
GrammarBuilder::Part number_part(GrammarBuilder& builder, const NumberLimits& limits, int64_t most_digits = 16);

}  // namespace transom::constraint
