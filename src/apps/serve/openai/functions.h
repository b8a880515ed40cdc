// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json/json.h"

namespace transom::serve {

// OpenAI's older form of tools, functions and function_call with their messages, as the form that replaced it. Returns
// whether the body had the older one, so that the answer has it too. Refuses by 400 a body with both.
bool replace_functions(Json& body);

}  // namespace transom::serve
