// SPDX-License-Identifier: Apache-2.0
// What answers say of single tokens, in the forms of the interfaces.
#pragma once

#include <vector>

#include "apps/serve/api/request_json.h"
#include "transom/engine.h"
#include "transom/tokenizer.h"

namespace transom::serve {

// {"token", "logprob", "bytes"} and, with alternatives, "top_logprobs" of the same form: OpenAI's chats and responses,
// Ollama.
Json logprob_list(const Tokenizer& tokenizer, const std::vector<TokenLogprobs>& given);
// vLLM's prompt_logprobs: for each token of the prompt {id: {"logprob", "rank", "decoded_token"}} of itself and of the
// `most` likeliest; null for the first. The rank of a token that is not among these is null.
Json prompt_logprob_list(const Tokenizer& tokenizer, const TokenIds& prompt, const std::vector<TokenLogprobs>& given,
                         int64_t most);

// vLLM's fields for the tokens of a request and an answer.
struct TokenDetails {
  bool ids = false;                        // return_token_ids
  std::optional<int64_t> prompt_logprobs;  // so many likeliest beside each
  bool any() const { return ids || prompt_logprobs; }
};
// Of a prompt, into what answers about it: a choice of /v1/completions, the whole of a chat.
void add_prompt_details(Json& answer, const TokenDetails& details, const Tokenizer& tokenizer, const TokenIds& prompt,
                        const std::vector<TokenLogprobs>& logprobs);

}  // namespace transom::serve
