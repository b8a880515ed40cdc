// SPDX-License-Identifier: Apache-2.0
// Results of pipelines as people read them: columns, and numbers of four digits.
#pragma once

#include <string>

#include "base/json/json_fwd.h"

namespace transom {

void show_result(const Json& result, const std::string& indent = "");
// With the input that it belongs to above it.
void show_named_result(const std::string& input, const Json& result);
// Sentences by falling score.
void show_ranking(const Json& sentences, const Json& scores);

}  // namespace transom
