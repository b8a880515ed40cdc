// SPDX-License-Identifier: Apache-2.0
// POST /v1/messages and /v1/messages/count_tokens.
#include "apps/serve/anthropic/chat_of_messages.h"
#include "apps/serve/anthropic/message_sink.h"
#include "apps/serve/anthropic/routes.h"
#include "apps/serve/api/known_fields.h"
#include "apps/serve/openai/identifiers.h"
#include "apps/serve/structured/structured_output.h"

namespace transom::serve {
namespace {

constexpr const char* kMessagesPath = "/v1/messages";

// Streams of the version before the first of these had another form. Who names none gets what there is.
void expect_version(const HttpRequest& request) {
  constexpr std::string_view kFirst = "2023-06-01", kLast = "2026-10-21", kDigits = "0123456789";
  const std::string* given = request.header("anthropic-version");
  if (!given) return;
  bool is_date = given->size() == kFirst.size();
  for (size_t i = 0; is_date && i < given->size(); ++i)
    is_date = kFirst[i] == '-' ? (*given)[i] == '-' : kDigits.find((*given)[i]) != kDigits.npos;
  if (!is_date || *given < kFirst)
    throw ApiError(400, fmt::format("anthropic-version: expected a date from {} on, found {}", kFirst, quoted(*given)));
  if (*given > kLast)
    report_once(kMessagesPath, "anthropic-version",
                fmt::format("{}: anthropic-version {} is newer than {}, which is what is known here", kMessagesPath,
                            *given, kLast));
}

ServedModel& model_of_messages(const std::shared_ptr<Call>& call, const std::optional<std::string>& name) {
  if (!name) refuse_field("model", "model: field required");
  return call->use_model(&*name, can_generate, "messages");
}

// `output_config.format`, or the field that came before it.
ConstraintPointer read_output_format(RequestFields& fields, const ServedModel& model) {
  const Json* config = fields.object("output_config");
  const Json* older = fields.object("output_format");
  std::string where = "output_format";
  const Json* given = older;
  if (config && config->contains("format") && !(*config)["format"].is_null()) {
    if (older) refuse_field(where, "{}: the request has output_config.format already", where);
    where = "output_config.format";
    given = &(*config)["format"];
  }
  if (!given) return nullptr;
  RequestFields format(*given, where);
  if (!format.choice("type", {"json_schema"})) refuse_field(where + ".type", "{}.type: field required", where);
  const Json* schema = format.object("schema");
  if (!schema) refuse_field(where + ".schema", "{}.schema: field required", where);
  return schema_constraint(model, *schema, where + ".schema");
}

void read_message_sampling(RequestFields& fields, SamplingFields& sampling) {
  GenerationConfig& config = sampling.request.config;
  sampling.names = {.prompt = "messages", .tokens = "max_tokens"};
  sampling.max_tokens = fields.integer("max_tokens", 0, INT32_MAX);
  if (!sampling.max_tokens) refuse_field("max_tokens", "max_tokens: field required");
  if (*sampling.max_tokens == 0) sampling.request.prompt_logprobs = 0;  // the prompt is read, nothing is written
  if (const auto given = fields.number("temperature", 0, 1)) config.temperature = *given;
  if (config.temperature < 1e-5) config.do_sample = false, config.temperature = 1;
  if (const auto given = fields.number("top_p", 0, 1)) config.top_p = *given;
  if (config.top_p <= 0) config.do_sample = false, config.top_p = 1;
  if (const auto given = fields.integer("top_k", 0, INT32_MAX)) config.top_k = *given;
  if (const auto stop = fields.texts("stop_sequences", 16, 256))
    for (const std::string& text : *stop) {
      if (text.empty()) refuse_field("stop_sequences", "stop_sequences: expected strings that are not empty");
      config.stop_strings.push_back(text);
    }
}

// What clients know a prompt by that is too long.
[[noreturn]] void refuse_long_prompt(int64_t length, int64_t most) {
  throw ApiError(400, fmt::format("prompt is too long: {} tokens > {} maximum", length, most), "messages",
                 "context_length_exceeded");
}

// As `work` with the names that this interface has for what it refuses.
template <typename Work>
auto with_names(const ChatOfMessages& chat, const Work& work) {
  try {
    return work();
  } catch (const ApiError& error) {
    const bool is_long = error.code() == "context_length_exceeded";
    throw ApiError(error.status(), (is_long ? "prompt is too long: " : "") + chat.named(error.what()),
                   chat.named(error.param()), error.code());
  }
}

// What has no effect on an answer here, or is not known.
void expect_known_message_fields(RequestFields& fields) {
  fields.any("cache_control");  // beginnings of prompts are found again without it
  if (const Json* given = fields.any("context_management"); given && !given->empty())
    report_once(kMessagesPath, "context_management",
                fmt::format("{}: the field context_management has no effect: nothing is taken out of a conversation",
                            kMessagesPath));
  expect_known_fields(fields, kMessagesPath);
}

}  // namespace

void anthropic_messages(const std::shared_ptr<Call>& call) {
  call->answer_headers.emplace_back("request-id", call->request().id);
  expect_version(call->request());
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  ServedModel& model = model_of_messages(call, name);
  const ServeOptions& options = call->services().options;
  SamplingFields sampling = default_sampling(model, options);
  MessageSettings settings{.id = new_identifier("msg_"), .model = read_adapter(name, model, sampling)};
  read_message_sampling(fields, sampling);
  sampling.request.constraint = read_output_format(fields, model);
  const ChatOfMessages chat = read_chat_of_messages(fields);
  settings.stream = fields.boolean("stream").value_or(false);
  settings.shows_thoughts = chat.thinks;
  if (chat.budget && *sampling.max_tokens > 0 && *chat.budget >= *sampling.max_tokens)
    refuse_field("thinking.budget_tokens", "thinking.budget_tokens: expected less than max_tokens ({}), found {}",
                 *sampling.max_tokens, *chat.budget);
  RequestFields chat_fields(chat.body);
  settings.turn = with_names(chat, [&] { return read_chat_turn(chat_fields, model, options, sampling, chat.budget); });
  expect_known_message_fields(fields);
  const auto length = static_cast<int64_t>(settings.turn.prompt.inputs.tokens.size());
  if (const int64_t limit = model.generator->max_model_length(); limit > 0) {
    if (length >= limit) refuse_long_prompt(length, limit);
    settings.is_cut_by_context = *sampling.max_tokens > limit - length;
    sampling.max_tokens = std::min(*sampling.max_tokens, limit - length);
  }
  std::vector<EngineRequest> requests{request_for(sampling, settings.turn.prompt.inputs, model, 0)};
  start_generation(call, model, std::move(requests), message_sink(call, model, std::move(settings)), sampling.names);
}

void anthropic_count_tokens(const std::shared_ptr<Call>& call) {
  call->answer_headers.emplace_back("request-id", call->request().id);
  expect_version(call->request());
  const Json body = call->body();
  RequestFields fields(body);
  const auto name = fields.text("model");
  ServedModel& model = model_of_messages(call, name);
  const ChatOfMessages chat = read_chat_of_messages(fields);
  expect_known_message_fields(fields);
  RequestFields chat_fields(chat.body);
  const ChatPrompt prompt = with_names(chat, [&] {
    read_tool_choice(chat_fields);
    return read_chat_prompt(chat_fields, model, call->services().options);
  });
  call->model = model.name;
  call->reply({{"input_tokens", prompt.inputs.tokens.size()}});
}

std::vector<Route> anthropic_routes() {
  return {{"POST", "/v1/messages", anthropic_messages, ErrorForm::kAnthropic, Route::kMedia},
          {"POST", "/v1/messages/count_tokens", anthropic_count_tokens, ErrorForm::kAnthropic, Route::kMedia}};
}

}  // namespace transom::serve
