// SPDX-License-Identifier: Apache-2.0
// /tokenize tells the two interfaces apart by its fields: `inputs` is of text-embeddings-inference, `prompt` or
// `messages` of vLLM.
#include "apps/serve/api/known_fields.h"
#include "apps/serve/chat/chat_prompt.h"
#include "apps/serve/encoders/encode_inputs.h"
#include "apps/serve/tei/routes.h"
#include "work/generation/constraint/tokens/token_bytes.h"

namespace transom::serve {
namespace {

bool has_tokenizer(const ModelFacts& model) { return model.tokenizes; }

ServedModel& model_of(const std::shared_ptr<Call>& call, RequestFields& fields) {
  const auto name = fields.text("model");
  return call->use_model(name ? &*name : nullptr, has_tokenizer, "tokenizer");
}

// [[{"id", "text", "special", "start", "stop"}]]
void tokenize_as_tei(const std::shared_ptr<Call>& call, RequestFields& fields) {
  call->answer_errors_as(ErrorForm::kTei);
  ServedModel& model = model_of(call, fields);
  auto texts = fields.texts("inputs", static_cast<size_t>(call->services().options.max_client_batch_size));
  const bool special = fields.boolean("add_special_tokens").value_or(true);
  VectorSettings settings;
  settings.prompt = fields.text("prompt_name");
  if (settings.prompt && !model.embedder) refuse_prompt(settings);
  if (settings.prompt) texts = with_prompt(*texts, "inputs", model, *settings.prompt).get<std::vector<std::string>>();
  const bool split = fields.boolean("split_special_tokens").value_or(false);
  expect_known_fields(fields, "/tokenize");
  Json lists = Json::array();
  for (const std::string& text : *texts) {
    const Encoding encoding =
        model.tokenizer->encode(text, std::nullopt, {.add_special_tokens = special, .split_special_tokens = split});
    Json list = Json::array();
    for (size_t i = 0; i < encoding.size(); ++i) {
      const bool is_special = encoding.special_tokens_mask[i] != 0;
      list.push_back({{"id", encoding.ids[i]},
                      {"text", is_special ? encoding.tokens[i] : model.tokenizer->decode({encoding.ids[i]})},
                      {"special", is_special},
                      {"start", is_special ? Json() : Json(encoding.offsets[i].first)},
                      {"stop", is_special ? Json() : Json(encoding.offsets[i].second)}});
    }
    lists.push_back(std::move(list));
  }
  call->reply(lists);
}

TokenIds ids_of(const Json* list, const char* field, int64_t size) {
  if (!list) refuse_field(field, "{}: missing; expected a list of token ids", field);
  TokenIds ids;
  for (const Json& id : *list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= size)
      refuse_field(field, "{}: expected token ids from 0 to {}, found {}", field, size - 1, quoted(compact(id)));
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

}  // namespace

void tokenize(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  if (body.contains("inputs")) return tokenize_as_tei(call, fields);
  ServedModel& model = model_of(call, fields);
  TokenIds ids;
  if (const auto prompt = fields.text("prompt")) {
    const bool special = fields.boolean("add_special_tokens").value_or(true);
    const bool split = fields.boolean("split_special_tokens").value_or(false);
    ids = model.tokenizer->encode(*prompt, std::nullopt, {.add_special_tokens = special, .split_special_tokens = split})
              .ids;
  } else if (fields.any("messages")) {
    ids = read_chat_prompt(fields, model, call->services().options).inputs.tokens;
  } else {
    refuse_field("prompt", "prompt: missing; expected prompt, messages or inputs");
  }
  Json answer{{"count", ids.size()},
              {"max_model_len", model.max_length ? Json(*model.max_length) : Json()},
              {"tokens", ids},
              {"token_strs", nullptr}};
  if (fields.boolean("return_token_strs").value_or(false)) {
    answer["token_strs"] = Json::array();
    for (const int64_t id : ids) answer["token_strs"].push_back(model.tokenizer->id_to_token(id).value_or(""));
  }
  expect_known_fields(fields, "/tokenize");
  call->reply(answer);
}

// {"tokens"} -> {"prompt"} of vLLM; {"ids"} -> ["..."] of text-embeddings-inference.
void detokenize(const std::shared_ptr<Call>& call) {
  const Json body = call->body();
  RequestFields fields(body);
  ServedModel& model = model_of(call, fields);
  const int64_t size = model.tokenizer->vocab_size();
  if (body.contains("ids")) {
    const bool skip = fields.boolean("skip_special_tokens").value_or(true);
    const Json* lists = fields.list("ids", static_cast<size_t>(call->services().options.max_client_batch_size));
    if (!lists || lists->empty())
      refuse_field("ids", "ids: expected token ids or lists of them, found {}", lists ? "an empty list" : "null");
    expect_known_fields(fields, "/decode");
    Json texts = Json::array();
    if (!(*lists)[0].is_array()) texts.push_back(model.tokenizer->decode(ids_of(lists, "ids", size), skip));
    else
      for (const Json& list : *lists) texts.push_back(model.tokenizer->decode(ids_of(&list, "ids", size), skip));
    return call->reply(texts);
  }
  const TokenIds ids = ids_of(fields.list("tokens"), "tokens", size);
  expect_known_fields(fields, "/detokenize");
  call->reply({{"prompt", model.tokenizer->decode(ids)}});
}

}  // namespace transom::serve
