// SPDX-License-Identifier: Apache-2.0
// The paths of text-embeddings-inference, and the tokenizers, whose paths it shares with vLLM.
// https://huggingface.github.io/text-embeddings-inference
#pragma once

#include <vector>

#include "apps/serve/api/call.h"

namespace transom::serve {

void tokenize(const std::shared_ptr<Call>& call);
void detokenize(const std::shared_ptr<Call>& call);
void tei_embed(const std::shared_ptr<Call>& call);
void tei_embed_all(const std::shared_ptr<Call>& call);
void tei_embed_sparse(const std::shared_ptr<Call>& call);
void tei_predict(const std::shared_ptr<Call>& call);
void tei_info(const std::shared_ptr<Call>& call);
std::vector<Route> tei_routes();

}  // namespace transom::serve
