// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/messages.h"

#include <array>
#include <string_view>

#include "base/error.h"

namespace transom {
namespace {

// What ShareGPT's files call who speaks.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kShareGptRoles = {
    {{"human", "user"},
     {"gpt", "assistant"},
     {"chatgpt", "assistant"},
     {"bot", "assistant"},
     {"model", "assistant"},
     {"observation", "tool"},
     {"function_response", "tool"}}};
constexpr std::array<std::string_view, 7> kRoles = {"system", "developer", "user",   "assistant",
                                                    "tool",   "function",  "ipython"};

std::string role_of(const Json& message, const std::string& where) {
  const char* name = message.contains("role") ? "role" : "from";
  const auto found = message.find(name);
  require(found != message.end() && found->is_string(), "{}: expected a role (or from, as ShareGPT has it), found {}",
          where, quoted(dump_json(message)));
  std::string role = found->get<std::string>();
  if (name == std::string_view("from"))
    for (const auto& [theirs, ours] : kShareGptRoles)
      if (role == theirs) role = ours;
  std::vector<std::string> known;
  for (const std::string_view each : kRoles) {
    if (role == each) return role;
    known.emplace_back(each);
  }
  fail("{}: expected a role of {}, found {}{}", where, fmt::join(known, ", "), quoted(role), did_you_mean(role, known));
}

Json content_of(const Json& message, const std::string& where, bool pictures) {
  const auto found = message.contains("content") ? message.find("content") : message.find("value");
  const bool calls = message.contains("tool_calls") && !message["tool_calls"].is_null();
  if (found == message.end() || found->is_null()) {
    require(calls, "{}: expected content (or value, as ShareGPT has it), found {}", where, quoted(dump_json(message)));
    return found == message.end() ? Json() : *found;
  }
  if (found->is_string()) return *found;
  require(found->is_array(), "{}: content: expected a text or a list of parts, found {}", where, found->type_name());
  for (const Json& part : *found) {
    if (is_picture_part(part)) {
      require(pictures,
              "{}: content: found a picture, expected texts: --task sft trains models that see pictures on them",
              where);
      continue;
    }
    const bool is_text = part.is_object() && part.contains("type") && part["type"] == "text" && part.contains("text") &&
                         part["text"].is_string();
    require(is_text, "{}: content: expected parts {{\"type\": \"text\", \"text\": ...}}{}, found {}", where,
            pictures ? " or {\"type\": \"image\"}" : "", quoted(dump_json(part), 200));
  }
  return *found;
}

Json calls_of(const Json& calls, const std::string& where) {
  require(calls.is_array(), "{}: tool_calls: expected a list, found {}", where, calls.type_name());
  Json result = Json::array();
  for (Json call : calls) {
    Json* function = call.is_object() && call.contains("function") ? &call["function"] : &call;
    const bool named = function->is_object() && function->contains("name") && (*function)["name"].is_string();
    require(named, "{}: tool_calls: expected a function with a name, found {}", where, quoted(dump_json(call)));
    if (const auto arguments = function->find("arguments"); arguments != function->end() && arguments->is_string()) {
      const std::string text = arguments->get<std::string>();
      const Json parsed = parse_json(text.empty() ? "{}" : text, fmt::format("{}: arguments of the call of {}", where,
                                                                             (*function)["name"].get<std::string>()));
      require(parsed.is_object(), "{}: arguments of the call of {}: expected an object of JSON, found {}", where,
              (*function)["name"].get<std::string>(), quoted(text));
      *arguments = parsed;
    }
    result.push_back(std::move(call));
  }
  return result;
}

}  // namespace

bool is_picture_part(const Json& part) {
  if (!part.is_object() || !part.contains("type")) return false;
  return part["type"] == "image" || part["type"] == "image_url";
}

namespace {

// Marks of other trainers by which a message is not learnt.
void expect_learnt(const Json& message, const std::string& where) {
  for (const char* name : {"weight", "loss", "train"}) {
    const auto found = message.find(name);
    const bool off = found != message.end() && ((found->is_boolean() && !found->get<bool>()) ||
                                                (found->is_number() && found->get<double>() != 1));
    require(!off, "{}: {}: expected none, since messages have no weights here, found {}", where, name,
            quoted(found == message.end() ? "" : dump_json(*found)));
  }
}

}  // namespace

Json plain_messages(const Json& messages, const std::string& where, bool pictures) {
  require(messages.is_array() && !messages.empty(), "{}: expected a list of messages, found {}", where,
          messages.is_array() ? "an empty one" : messages.type_name());
  Json result = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    const std::string at = fmt::format("{}: message {}", where, i + 1);
    require(message.is_object(), "{}: expected an object with role and content, found {}", at,
            quoted(dump_json(message)));
    expect_learnt(message, at);
    Json plain = {{"role", role_of(message, at)}};
    plain["content"] = content_of(message, at, pictures);
    for (const auto& [name, value] : message.items()) {
      if (name == "role" || name == "content") continue;
      if (!message.contains("role") && (name == "from" || name == "value")) continue;
      if (name == "tool_calls" && !value.is_null()) plain[name] = calls_of(value, at);
      else plain[name] = value;
    }
    result.push_back(std::move(plain));
  }
  return result;
}

void put_system_text(Json& messages, const std::string& text, const std::string& where) {
  if (text.empty()) return;
  require(messages.is_array(), "{}, column system: expected messages beside it, which begin with it; found a text",
          where);
  if (!messages.empty() && messages[0]["role"] == "system") {
    require(messages[0]["content"] == text, "{}: expected one system text, found a column system and another message",
            where);
    return;
  }
  messages.insert(messages.begin(), Json({{"role", "system"}, {"content", text}}));
}

bool has_assistant_turn(const Json& messages) {
  for (const Json& message : messages)
    if (message["role"] == "assistant") return true;
  return false;
}

}  // namespace transom
