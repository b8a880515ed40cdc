// SPDX-License-Identifier: Apache-2.0
// Ranking and scoring, as Jina, Cohere and vLLM (`documents`) and text-embeddings-inference (`texts`) name them.
#pragma once

#include <vector>

#include "apps/serve/api/call.h"

namespace transom::serve {

void pooling(const std::shared_ptr<Call>& call);
std::vector<Route> scoring_routes();

}  // namespace transom::serve
