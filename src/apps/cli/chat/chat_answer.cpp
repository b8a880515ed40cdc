// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/chat/chat_answer.h"

#include "base/error.h"
#include "base/json/json.h"
#include "tools/client/event_stream.h"

namespace transom {
namespace {

std::string told_by(const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  if (json.is_object() && json.contains("error") && json["error"].is_object())
    if (const Json message = json["error"].value("message", Json()); message.is_string())
      return message.get<std::string>();
  return quoted(body, 200);
}

std::string text_in(const Json& object, const char* name) {
  const Json value = object.is_object() ? object.value(name, Json()) : Json();
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace

ChatAnswer ask_for_answer(ChatService& service, const std::string& body,
                          const std::function<void(std::string_view, bool)>& show,
                          const std::function<bool()>& stopped) {
  ChatAnswer answer;
  std::string failure;
  client::EventStream events([&](std::string_view data) {
    const Json event = data == "[DONE]" ? Json::object() : Json::parse(data, nullptr, false);
    if (event.is_object() && event.contains("error")) failure = told_by(std::string(data));
    const Json choices = event.is_object() ? event.value("choices", Json()) : Json();
    if (!choices.is_array() || choices.empty() || !choices[0].is_object()) return;
    const Json delta = choices[0].value("delta", Json());
    // Servers have two names for thoughts.
    std::string thoughts = text_in(delta, "reasoning_content");
    if (thoughts.empty()) thoughts = text_in(delta, "reasoning");
    const std::string text = text_in(delta, "content");
    if (const std::string finish = text_in(choices[0], "finish_reason"); !finish.empty()) answer.finish = finish;
    answer.thoughts += thoughts;
    answer.text += text;
    if (!thoughts.empty()) show(thoughts, true);
    if (!text.empty()) show(text, false);
  });
  ChatReply reply;
  for (Patience patience;; patience.wait()) {
    reply = service.post(
        body, [&](std::string_view piece) { events.add(piece); }, stopped);
    if (reply.status != 503 || reply.stopped || stopped() || patience.is_over()) break;
  }
  events.end();
  answer.stopped = reply.stopped;
  if (answer.stopped) return answer;
  if (!reply.failure.empty()) fail("{}", reply.failure);
  if (reply.status != 200) fail("{}", told_by(reply.body));
  if (!failure.empty()) fail("{}", failure);
  return answer;
}

}  // namespace transom
