// SPDX-License-Identifier: Apache-2.0
// OpenAI's files and batches: /v1/files and /v1/batches.
// https://platform.openai.com/docs/api-reference/files
#pragma once

#include <vector>

#include "apps/serve/api/call.h"

namespace transom::serve {

std::vector<Route> batch_routes();

}  // namespace transom::serve
