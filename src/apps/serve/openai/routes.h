// SPDX-License-Identifier: Apache-2.0
// The paths of OpenAI's interface, and those that vLLM adds.
// https://platform.openai.com/docs/api-reference
#pragma once

#include <vector>

#include "apps/serve/api/call.h"

namespace transom::serve {

// One handler a path; each file of this folder has one or a few.
void list_models(const std::shared_ptr<Call>& call);
void show_model(const std::shared_ptr<Call>& call);
void image_generations(const std::shared_ptr<Call>& call);
void image_edits(const std::shared_ptr<Call>& call);
void image_variations(const std::shared_ptr<Call>& call);
void embeddings(const std::shared_ptr<Call>& call);
void chat_completions(const std::shared_ptr<Call>& call);
void completions(const std::shared_ptr<Call>& call);
void responses(const std::shared_ptr<Call>& call);
void transcriptions(const std::shared_ptr<Call>& call);
void translations(const std::shared_ptr<Call>& call);
void speech(const std::shared_ptr<Call>& call);

std::vector<Route> openai_routes();

}  // namespace transom::serve
