// SPDX-License-Identifier: Apache-2.0
// Anthropic's interface: messages and the counting of their tokens.
// https://docs.anthropic.com/en/api/messages
#pragma once

#include <vector>

#include "apps/serve/api/call.h"

namespace transom::serve {

void anthropic_messages(const std::shared_ptr<Call>& call);
void anthropic_count_tokens(const std::shared_ptr<Call>& call);
std::vector<Route> anthropic_routes();

// GET /v1/models and /v1/models/{id} are asked by clients of two interfaces; those of this one say so in a header.
bool is_asked_as_anthropic(const HttpRequest& request);
void list_anthropic_models(const std::shared_ptr<Call>& call);
void show_anthropic_model(const std::shared_ptr<Call>& call, const std::string& name);

}  // namespace transom::serve
