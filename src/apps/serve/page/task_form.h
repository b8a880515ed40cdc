// SPDX-License-Identifier: Apache-2.0
// What a person fills in to ask a model, from the record of its task.
#pragma once

#include "apps/serve/models/model_facts.h"
#include "base/json/json_fwd.h"

namespace transom::serve {

// [[name, label, kind, optional]]: kind is line, area (a text of several lines), lines (a text a line), image or sound.
// Null for a task that has no such form: the page then asks for the request itself.
Json form_of_model(const ModelFacts& model);

}  // namespace transom::serve
