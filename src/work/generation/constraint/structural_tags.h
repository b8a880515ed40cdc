// SPDX-License-Identifier: Apache-2.0
// Free text with parts that have a form: where a trigger is written, the rest of a tag's beginning, a value of its
// schema and its end follow (the structural tags of XGrammar, as vLLM and SGLang take them).
#pragma once

#include "base/json/json_fwd.h"
#include "work/generation/constraint/grammar/grammar.h"

namespace transom::constraint {

// {"structures": [{"begin", "schema", "end"}, ...], "triggers": [...], "at_least_one", "stop_after_first"}; the last
// two are false by default. Each beginning starts with a trigger. Throws Error that names the place.
Grammar structural_tags_grammar(const Json& tags);

}  // namespace transom::constraint
