// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/generation/token_details.h"

#include <algorithm>

#include "apps/serve/api/written_numbers.h"
#include "apps/serve/generation/generation_request.h"

namespace transom::serve {
namespace {

constexpr float kLeastLogprob = -9999;  // of what cannot be, as OpenAI writes it

Json logprob_item(const Tokenizer& tokenizer, int64_t token, float logprob) {
  Json item = token_json(tokenizer, token);
  return {{"token", item["token"]}, {"logprob", written(std::max(logprob, kLeastLogprob))}, {"bytes", item["bytes"]}};
}

}  // namespace

Json logprob_list(const Tokenizer& tokenizer, const std::vector<TokenLogprobs>& given) {
  Json list = Json::array();
  for (const TokenLogprobs& each : given) {
    Json item = logprob_item(tokenizer, each.token, each.logprob);
    item["top_logprobs"] = Json::array();
    for (const auto& [token, logprob] : each.top)
      item["top_logprobs"].push_back(logprob_item(tokenizer, token, logprob));
    list.push_back(std::move(item));
  }
  return list;
}

Json prompt_logprob_list(const Tokenizer& tokenizer, const TokenIds& prompt, const std::vector<TokenLogprobs>& given,
                         int64_t most) {
  Json list = Json::array();
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (i == 0 || i > given.size()) {  // the first follows nothing
      list.push_back(nullptr);
      continue;
    }
    const TokenLogprobs& at = given[i - 1];
    const auto item = [&](int64_t token, float logprob, Json rank) -> Json {
      return {{"logprob", written(std::max(logprob, kLeastLogprob))},
              {"rank", std::move(rank)},
              {"decoded_token", token_text(tokenizer, token)}};
    };
    Json of_place = Json::object();
    of_place[std::to_string(prompt[i])] = item(prompt[i], at.logprob, nullptr);
    for (size_t rank = 0; rank < std::min(at.top.size(), static_cast<size_t>(most)); ++rank)
      of_place[std::to_string(at.top[rank].first)] = item(at.top[rank].first, at.top[rank].second, rank + 1);
    list.push_back(std::move(of_place));
  }
  return list;
}

void add_prompt_details(Json& answer, const TokenDetails& details, const Tokenizer& tokenizer, const TokenIds& prompt,
                        const std::vector<TokenLogprobs>& logprobs) {
  if (details.ids) answer["prompt_token_ids"] = prompt;
  if (details.prompt_logprobs)
    answer["prompt_logprobs"] = prompt_logprob_list(tokenizer, prompt, logprobs, *details.prompt_logprobs);
}

}  // namespace transom::serve
