// SPDX-License-Identifier: Apache-2.0
// The paths of text-generation-inference: /generate, /generate_stream, and POST / which chooses by `stream`.
// https://huggingface.github.io/text-generation-inference
#pragma once

#include <vector>

#include "apps/serve/api/call.h"

namespace transom::serve {

struct ServedModel;
// With `as_list` the answer is [{"generated_text"}], as the Hub's inference API gives it.
void tgi_generate_with(const std::shared_ptr<Call>& call, ServedModel& model, bool as_list);
std::vector<Route> tgi_routes();

}  // namespace transom::serve
