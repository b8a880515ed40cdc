// SPDX-License-Identifier: Apache-2.0
// What a request says about the form of the answer, as a constraint of the engine.
#pragma once

#include <memory>

#include "apps/serve/api/request_json.h"
#include "apps/serve/models/served_model.h"
#include "transom/engine.h"

namespace transom::serve {

using ConstraintPointer = std::shared_ptr<const TokenConstraint>;

// A JSON schema for a model; errors are 400 with `param`.
ConstraintPointer schema_constraint(const ServedModel& model, const Json& schema, const std::string& param);
// OpenAI's response_format, vLLM's structured_outputs and its older guided_json, guided_regex, guided_choice and
// guided_grammar. Null where the request has none of them; 400 for two of them.
ConstraintPointer read_structured_output(RequestFields& fields, const ServedModel& model);
// `grammar` of text-generation-inference: {"type": "json" | "regex", "value"}.
ConstraintPointer read_tgi_grammar(RequestFields& parameters, const ServedModel& model);

}  // namespace transom::serve
