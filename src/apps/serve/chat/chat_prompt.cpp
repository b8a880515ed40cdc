// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/chat/chat_prompt.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "apps/serve/api/known_fields.h"
#include "apps/serve/generation/encode_prompt.h"
#include "apps/serve/tools/tool_choice.h"
#include "work/generation/image_text/chat_parts.h"

namespace transom::serve {
namespace {

constexpr size_t kMostMessages = 1024, kMostTools = 128;

// Models without a template are asked in the form that most of them have seen.
constexpr const char* kChatMl =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// What templates read of a message and of its parts, and what may pass in silence: a part of what this server answered,
// or about its cache. `detail` is told apart, since one of its values asks for nothing.
constexpr std::string_view kMessageMembers[] = {
    "role",       "content",  "name",      "tool_name",         "tool_call_id",
    "tool_calls", "thinking", "reasoning", "reasoning_content", "cache_control"};
constexpr std::string_view kTextPartMembers[] = {"type", "text", "refusal", "cache_control", "annotations", "logprobs"};
constexpr std::string_view kImagePartMembers[] = {"type",  "image_url", "source",        "url",
                                                  "image", "base64",    "cache_control", "detail"};
constexpr std::string_view kPictureMembers[] = {"url", "data", "type", "media_type", "detail"};
// Types of parts that no model here reads.
const std::set<std::string, std::less<>> kOtherMedia{"input_audio",  "audio_url", "audio",       "file",
                                                     "input_file",   "video_url", "input_video", "video",
                                                     "image_embeds", "image_pil", "image_file",  "document_url"};
// Where others of this server's interfaces, or other servers, have media beside a text.
constexpr std::string_view kMediaMembers[] = {
    "image_url", "image", "images", "video",   "videos",    "video_url", "audio",  "input_audio", "audios",
    "audio_url", "file",  "files",  "file_id", "file_data", "source",    "base64", "url",         "image_embeds"};

// Media where texts alone are read would be lost, and the answer be another one.
void refuse_media(const Json& object, const std::string& where) {
  for (const std::string_view name : kMediaMembers)
    if (const auto found = object.find(name); found != object.end() && !found->is_null() && !found->empty())
      refuse_field(where, "{}: {} is not read beside a text: send it as a part of its own", where, quoted(name));
}

void report_detail(const Json& part) {
  const auto picture = part.find("image_url");
  const bool inner = picture != part.end() && picture->is_object();
  if (inner) report_other_members(*picture, "messages", "a picture", kPictureMembers);
  const Json detail = (inner ? *picture : part).value("detail", Json());
  if (!detail.is_null() && detail != "auto")
    report_once("messages", "detail",
                "messages: 'detail' of a picture has no effect: the model's own processor says how large it is read");
}

// A text, or a list of {"type": "text", "text"} and {"type": "image"}.
Json content_of(const Json& content, const std::string& where, ChatImages* images) {
  if (content.is_null()) return "";
  if (content.is_string()) return content;
  if (!content.is_array()) refuse_field(where, "{}: expected a string or a list of parts", where);
  if (content.empty()) return "";
  Json parts = Json::array();
  for (const Json& part : content) {
    const std::string type =
        part.is_object() && part.contains("type") && part["type"].is_string() ? part["type"].get<std::string>() : "";
    if (images && is_image_part(type)) {
      report_other_members(part, "messages", "a part of a message", kImagePartMembers);
      report_detail(part);
      parts.push_back(images->take(part, where));
      continue;
    }
    if (is_image_part(type) || kOtherMedia.contains(type))
      refuse_field(where, "{}: parts of the type {} are not supported by this model", where, type);
    const char* field = type == "refusal" ? "refusal" : "text";
    if ((type != "text" && type != "input_text" && type != "output_text" && type != "refusal") ||
        !part.contains(field) || !part[field].is_string())
      refuse_field(where, "{}: expected parts {{\"type\": \"text\", \"text\": ...}}, found {}", where,
                   quoted(compact(part)));
    refuse_media(part, where);
    report_other_members(part, "messages", "a part of a message", kTextPartMembers);
    parts.push_back({{"type", "text"}, {"text", part[field]}});
  }
  return parts;
}

// OpenAI takes any text.
Json arguments_of_history(const std::string& text, LongNumbers& numbers) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) return Json::object();
  try {
    return parse_request_json(numbers.shortened(text));
  } catch (const ApiError&) {
    return text;
  }
}

// Templates go through the arguments by name, and many fail where there are none. Whether there were such.
bool name_arguments(Json& messages) {
  bool any = false;
  for (Json& message : messages) {
    if (!message.contains("tool_calls")) continue;
    for (Json& call : message["tool_calls"]) {
      Json& arguments = call["function"]["arguments"];
      if (arguments.is_object()) continue;
      arguments = Json{{"arguments", arguments}};
      any = true;
    }
  }
  return any;
}

Json calls_of_history(const Json& calls, const std::string& where, LongNumbers& numbers) {
  if (!calls.is_array()) refuse_field(where, "{}: expected a list", where);
  Json result = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    const Json& call = calls[i];
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object() ||
        !call["function"].contains("name") || !call["function"]["name"].is_string())
      refuse_field(where, "{}: expected calls with a function and its name, found {}", where, quoted(compact(call)));
    Json kept = call;
    Json& arguments = kept["function"]["arguments"];
    if (arguments.is_string()) arguments = arguments_of_history(arguments.get<std::string>(), numbers);
    if (arguments.is_null()) arguments = Json::object();
    result.push_back(std::move(kept));
  }
  return result;
}

// {"type": "enabled"}, as the services of DeepSeek, Kimi and GLM have it.
std::optional<bool> read_thinking(RequestFields& fields) {
  const Json* thinking = fields.object("thinking");
  if (!thinking) return std::nullopt;
  RequestFields inner(*thinking, "thinking");
  const auto type = inner.choice("type", {"enabled", "disabled", "adaptive", "auto"});
  if (!type) refuse_field("thinking.type", "thinking.type: missing; expected enabled or disabled");
  expect_known_fields(inner, "/v1/chat/completions");
  if (*type != "enabled" && *type != "disabled") return std::nullopt;
  return *type == "enabled";
}

// How much the model thinks, as the fields of several services say it, in the variables that templates have for it:
// those of Qwen 3 and of gpt-oss. Returns the field; empty: there is none.
std::string add_thinking(RequestFields& fields, Json& variables) {
  const auto set = [&](const char* name, const Json& value) {
    if (!variables.contains(name)) variables[name] = value;
  };
  const auto effort = fields.text("reasoning_effort", 32);
  if (effort) *effort == "none" ? set("enable_thinking", false) : set("reasoning_effort", *effort);
  const Json* think = fields.any("think");
  if (think && !think->is_boolean() && !think->is_string())
    refuse_field("think", "think: expected true, false or a word, found {}", quoted(compact(*think)));
  if (think) think->is_boolean() ? set("enable_thinking", *think) : set("reasoning_effort", *think);
  const std::optional<bool> enabled = fields.boolean("enable_thinking"), thinking = read_thinking(fields);
  if (enabled) set("enable_thinking", *enabled);
  if (thinking) set("enable_thinking", *thinking);
  // Its name in the templates of DeepSeek, Granite and Kimi.
  if (const auto found = variables.find("enable_thinking"); found != variables.end()) set("thinking", Json(*found));
  return effort ? "reasoning_effort" : think ? "think" : enabled ? "enable_thinking" : thinking ? "thinking" : "";
}

// Logs once where a text is the same without something that a request brings for the template.
class EffectOnPrompt {
 public:
  EffectOnPrompt(const ServedModel& model, const Json& messages, const ChatOptions& chat, const std::string& text)
      : model_(model), messages_(compact(messages)), chat_(chat), text_(text) {}
  void expect(const std::string& field, const char* what, std::string ChatOptions::*member,
              const std::string& without) {
    if (field.empty() || chat_.*member == without || is_known(field, false)) return;
    ChatOptions other = chat_;
    other.*member = without;
    try {
      if (model_.tokenizer->apply_chat_template(messages_, other) == text_)
        return report_once(model_.name, field,
                           fmt::format("{}: {} {} no effect: the chat template does not read {}", model_.name, field,
                                       what == std::string_view("them") ? "have" : "has", what));
    } catch (const Error&) {  // it asks for it
    }
    is_known(field, true);
  }

 private:
  // Whether the model's template has once made something of the field.
  bool is_known(const std::string& field, bool from_now_on) const {
    static std::mutex mutex;
    static std::set<std::string> known;
    const std::lock_guard lock(mutex);
    const std::string name = model_.name + " " + field;
    if (from_now_on) known.insert(name);
    return known.contains(name);
  }
  const ServedModel& model_;
  const std::string messages_;
  const ChatOptions& chat_;
  const std::string& text_;
};

bool asks_for_thoughts(const Json& variables) {
  if (variables.value("thinking", Json()) == true) return true;
  if (const auto enabled = variables.find("enable_thinking"); enabled != variables.end()) return *enabled == true;
  return variables.contains("reasoning_effort");
}

}  // namespace

Json normalised_messages(const Json& messages, LongNumbers& numbers, ChatImages* images) {
  if (!messages.is_array() || messages.empty())
    refuse_field("messages", "messages: expected a list of at least one message");
  Json result = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    const std::string where = fmt::format("messages[{}]", i);
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      refuse_field(where, "{}: expected an object with a role", where);
    auto role = message["role"].get<std::string>();
    static const std::vector<std::string> kRoles{"system", "developer", "user", "assistant", "tool", "function"};
    if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end())
      refuse_field(where + ".role", "{}.role: expected system, developer, user, assistant or tool, found {}", where,
                   quoted(role));
    if (role == "developer") role = "system";  // templates know the older name
    if (role != "assistant" && !message.contains("content"))
      refuse_field(where + ".content", "{}.content: missing", where);
    refuse_media(message, where);
    report_other_members(message, "messages", "a message", kMessageMembers);
    Json kept{{"role", role}, {"content", content_of(message.value("content", Json()), where + ".content", images)}};
    for (const char* name : {"name", "tool_call_id"})
      if (message.contains(name) && message[name].is_string()) kept[name] = message[name];
    for (const char* name : {"thinking", "reasoning", "reasoning_content"})
      if (message.contains(name) && message[name].is_string()) kept["reasoning_content"] = message[name];
    if (message.contains("tool_calls") && !message["tool_calls"].is_null())
      kept["tool_calls"] = calls_of_history(message["tool_calls"], where + ".tool_calls", numbers);
    result.push_back(std::move(kept));
  }
  return result;
}

namespace {

// What `chat_template_kwargs` holds.
Json read_template_variables(RequestFields& fields) {
  const Json* variables = fields.object("chat_template_kwargs");
  if (!variables) return Json::object();
  for (const char* own : {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message",
                          "chat_template", "tokenize", "bos_token", "eos_token"})
    if (variables->contains(own))
      refuse_field("chat_template_kwargs", "chat_template_kwargs: {} is set by the server", own);
  return *variables;
}

// That of the request, or of the server; empty: the checkpoint's own.
std::string read_chat_template(RequestFields& fields, const ServedModel& model, const ServeOptions& options) {
  const auto own = fields.text("chat_template");
  if (own && !options.trust_request_chat_template)
    refuse_field("chat_template",
                 "chat_template: not taken from requests; the server allows it with --trust_request_chat_template");
  if (own) return *own;
  if (!options.chat_template.empty()) return options.chat_template;
  return model.tokenizer->has_chat_template() ? "" : kChatMl;
}

}  // namespace

ChatPrompt read_chat_prompt(RequestFields& fields, const ServedModel& model, const ServeOptions& options) {
  const Json* given = fields.list("messages", kMostMessages);
  if (!given) refuse_field("messages", "messages: missing; expected a list of messages");
  LongNumbers numbers;
  ChatImages images(model, options, count_image_parts(*given));
  Json messages = normalised_messages(*given, numbers, &images);
  ChatPrompt prompt;
  ChatOptions chat;
  chat.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  chat.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(!chat.continue_final_message);
  if (chat.continue_final_message && chat.add_generation_prompt)
    refuse_field("continue_final_message", "continue_final_message: excludes add_generation_prompt");
  if (const Json* tools = fields.list("tools", kMostTools); tools && !tools->empty()) prompt.tools = *tools;
  const Json* choice = fields.any("tool_choice");
  if (!prompt.tools.is_null() && !(choice && *choice == "none"))
    chat.tools = compact(allowed_tools(prompt.tools, choice));
  if (const Json* documents = fields.list("documents", 1024)) chat.documents = compact(*documents);
  Json variables_of_template = read_template_variables(fields);
  const std::string without_thinking = compact(variables_of_template);
  const std::string thinking = add_thinking(fields, variables_of_template);
  if (!variables_of_template.empty()) chat.variables = compact(variables_of_template);
  chat.chat_template = read_chat_template(fields, model, options);
  const bool has_parts =
      std::any_of(messages.begin(), messages.end(), [](const Json& message) { return message["content"].is_array(); });
  if (model.images || has_parts)
    messages = fitting_parts(messages, *model.tokenizer, chat, model.images ? model.images->image_token() : "");
  prompt.asks_for_thoughts = asks_for_thoughts(variables_of_template);
  if (options.tells_thoughts)
    prompt.thoughts.form = reasoning_form_of(*model.tokenizer, model.tokenizer->chat_template(chat));
  const bool has_calls = std::any_of(messages.begin(), messages.end(), [](const Json& message) {
    return message.contains("tool_calls") || message["role"] == "tool";
  });
  if (has_calls || !chat.tools.empty()) prompt.call_ids = fit_call_ids(messages, call_id_form(*model.tokenizer, chat));
  try {
    prompt.text = model.tokenizer->apply_chat_template(compact(messages), chat);
  } catch (const Error&) {
    if (!name_arguments(messages)) throw;
    prompt.text = model.tokenizer->apply_chat_template(compact(messages), chat);
  }
  EffectOnPrompt effect(model, messages, chat, prompt.text);
  effect.expect(thinking, "it", &ChatOptions::variables, without_thinking);
  const bool has_variables = without_thinking != "{}" && without_thinking != R"({"enable_thinking":false})";
  effect.expect(has_variables ? "chat_template_kwargs" : "", "them", &ChatOptions::variables, "");
  effect.expect("tools", "them", &ChatOptions::tools, "");
  effect.expect("documents", "them", &ChatOptions::documents, "");
  prompt.thoughts.begun = prompt.thoughts.form && begins_in_thoughts(prompt.text, *prompt.thoughts.form);
  prompt.text = numbers.restored(std::move(prompt.text));
  const bool special =
      fields.boolean("add_special_tokens").value_or(model.images && adds_special_tokens(prompt.text, *model.tokenizer));
  const auto encode = [&](const std::string& text) {
    return encode_prompt(text, {.add_special_tokens = special}, *model.tokenizer, model.max_length.value_or(0),
                         "messages");
  };
  if (!model.images) {
    prompt.inputs = encode(prompt.text);
    return prompt;
  }
  try {
    prompt.inputs = (*model.images)(prompt.text, images.taken(), encode);
  } catch (const Error& error) {
    refuse_field("messages", "messages: {}", error.what());
  }
  return prompt;
}

}  // namespace transom::serve
