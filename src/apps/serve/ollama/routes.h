// SPDX-License-Identifier: Apache-2.0
// Ollama's paths: answers come as lines of JSON unless "stream" is false. Nothing here changes which models there are.
// https://github.com/ollama/ollama/blob/main/docs/api.md
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/serve/api/call.h"
#include "apps/serve/api/request_json.h"
#include "apps/serve/generation/generation_request.h"

namespace transom::serve {

// ---- the paths
void ollama_chat(const std::shared_ptr<Call>& call);
void ollama_generate(const std::shared_ptr<Call>& call);
void ollama_embed(const std::shared_ptr<Call>& call);
void ollama_embeddings(const std::shared_ptr<Call>& call);
std::vector<Route> ollama_routes();

// ---- what they share
// The name of the model; ":latest", which clients add, is left out unless a model is called so. 400 without one.
std::string ollama_model_name(RequestFields& fields, const Services& services);
// "2026-01-31T12:00:00.123456789Z", of now or of a time in seconds.
std::string ollama_time();
std::string ollama_time(int64_t seconds);
// A text with `images`, a list of base64, as parts of a message's content: the pictures first, as Ollama has them.
Json ollama_content(const Json& text, const Json* images);
// `logprobs` and `top_logprobs`. Returns whether there are to be any.
bool read_ollama_logprobs(RequestFields& fields, EngineRequest& request);
// `options` and `format` of a request.
SamplingFields read_ollama_options(RequestFields& fields, const ServedModel& model, const ServeOptions& options);

}  // namespace transom::serve
