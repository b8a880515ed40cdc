// SPDX-License-Identifier: Apache-2.0
// What every function of transom_c.h does at the border to C: no exception leaves it, and no pointer is taken unseen.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "transom/pipeline.h"
#include "transom/transom_c.h"

namespace transom {

// Calls `work`; what it throws becomes a status and a line in `error`, which may be null.
transom_code guarded(transom_failure* error, const std::function<void()>& work);

// The text of an argument, which must not be null.
std::string required(const char* text, const char* argument);
// The same of a JSON object that may be null: "{}" then.
std::string object_or_empty(const char* text);

// A copy that transom_free frees. `text` null: nothing is copied.
void give_text(char** text, std::string_view value);

// The options of transom_pipeline_load and its like; `where` names them in errors.
PipelineOptions loading_options(const char* options, bool takes_batches, const std::string& where);

}  // namespace transom
