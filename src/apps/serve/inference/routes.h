// SPDX-License-Identifier: Apache-2.0
// Hugging Face's inference form: {"inputs", "parameters"} to /models/{id}, or the bytes of a picture or sound, for the
// pipeline of each task.
#pragma once

#include <vector>

#include "apps/serve/api/call.h"

namespace transom::serve {

struct ServedModel;
// A model by its task, for POST / and /models/{id}.
void infer_with(const std::shared_ptr<Call>& call, ServedModel& model);
std::vector<Route> inference_routes();

}  // namespace transom::serve
