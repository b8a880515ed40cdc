// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/chat/chat_session.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/terminal/command_line.h"
#include "base/text/base64.h"

namespace transom {
namespace {

constexpr const char* kHelp =
    "  /system [TEXT]      what the model is told first; without TEXT nothing\n"
    "  /set [NAME VALUE]   temperature, top_p, max_tokens, seed ...; without NAME what is set\n"
    "  /image FILE         a picture for the next turn\n"
    "  /read FILE          a text file for the next turn\n"
    "  /save FILE          the conversation as JSON\n"
    "  /load FILE          such a conversation, or a list of messages\n"
    "  /again              another answer to the last turn\n"
    "  /undo               takes the last turn and its answer back\n"
    "  /clear              begins anew; the system prompt and what is set stay\n"
    "  /quit               ends, as Ctrl-D does; Ctrl-C stops an answer\n"
    "A line that ends with \\ goes on with the next one.";

std::string_view trimmed_line(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

const ChatSetting& setting_of(const std::string& name) {
  std::vector<std::string> names;
  for (const ChatSetting& setting : chat_settings()) {
    if (setting.name == name || setting.other_name == name) return setting;
    names.emplace_back(setting.name);
  }
  fail(ErrorKind::kUsage, "{}: expected one of {}", quoted(name), fmt::join(names, ", "));
}

Json value_of_word(const ChatSetting& setting, const std::string& word) {
  const auto refuse = [&](const char* what) {
    fail(ErrorKind::kUsage, "{}: expected {}, found {}", setting.name, what, quoted(word));
  };
  const char *begin = word.data(), *end = begin + word.size();
  if (setting.kind == ChatSetting::kNumber) {
    double value = 0;
    const auto read = std::from_chars(begin, end, value);
    if (read.ec != std::errc() || read.ptr != end) refuse("a number");
    return value;
  }
  if (setting.kind == ChatSetting::kInteger) {
    int64_t value = 0;
    const auto read = std::from_chars(begin, end, value);
    if (read.ec != std::errc() || read.ptr != end) refuse("a whole number");
    return value;
  }
  if (setting.kind == ChatSetting::kText) return word;
  if (word != "true" && word != "false") refuse("true or false");
  return word == "true";
}

std::string media_type_of(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8")) return "image/jpeg";
  if (bytes.starts_with("GIF8")) return "image/gif";
  if (bytes.starts_with("BM")) return "image/bmp";
  if (bytes.starts_with("RIFF")) return "image/webp";
  return "image/png";
}

bool is_turn(const Json& message) {
  return message.is_object() && message.contains("role") && message["role"].is_string() && message.contains("content");
}

}  // namespace

const std::vector<ChatSetting>& chat_settings() {
  static const std::vector<ChatSetting> kSettings{
      {"temperature", ChatSetting::kNumber, "0: the likeliest token each time"},
      {"top_p", ChatSetting::kNumber, "draws among the likeliest tokens that have this probability together"},
      {"top_k", ChatSetting::kInteger, "draws among so many likeliest tokens"},
      {"min_p", ChatSetting::kNumber, "draws among tokens that have at least this share of the likeliest one"},
      {"typical_p", ChatSetting::kNumber, "draws among tokens that are as likely as expected"},
      {"repetition_penalty", ChatSetting::kNumber, "above 1: less of what was said already"},
      {"presence_penalty", ChatSetting::kNumber, "taken off tokens that were written"},
      {"frequency_penalty", ChatSetting::kNumber, "the same, for each time"},
      {"max_tokens", ChatSetting::kInteger, "tokens of an answer", "max_new_tokens"},
      {"seed", ChatSetting::kInteger, "equal seeds draw equal answers"},
      {"stop", ChatSetting::kText, "a text that ends an answer"},
      {"think", ChatSetting::kBoolean, "whether the model thinks first, where its template asks"},
      {"reasoning_effort", ChatSetting::kText, "how much it thinks, where its template asks"},
      {"thinking_token_budget", ChatSetting::kInteger, "tokens of its thoughts"},
  };
  return kSettings;
}

void ChatSession::set(const std::string& name, const std::string& word) {
  const ChatSetting& setting = setting_of(name);
  settings_[setting.name] = value_of_word(setting, word);
}

void ChatSession::say(const std::string& text) {
  said_ = std::exchange(waiting_, {});
  const std::string whole = said_.text.empty() ? text : said_.text + "\n" + text;
  Json content = whole;
  if (!said_.images.empty()) {
    content = said_.images;
    content.push_back({{"type", "text"}, {"text", whole}});
  }
  messages_.push_back({{"role", "user"}, {"content", std::move(content)}});
}

Json ChatSession::request(const std::string& model) const {
  Json body{{"model", model}, {"stream", true}, {"messages", Json::array()}};
  if (!system_.empty()) body["messages"].push_back({{"role", "system"}, {"content", system_}});
  for (const Json& message : messages_) body["messages"].push_back(message);
  body.update(settings_);
  return body;
}

void ChatSession::take_answer(const std::string& text, const std::string& thoughts) {
  Json message{{"role", "assistant"}, {"content", text}};
  if (!thoughts.empty()) message["reasoning_content"] = thoughts;
  messages_.push_back(std::move(message));
}

void ChatSession::undo_turn() {
  if (messages_.empty() || messages_.back()["role"] != "user") return;
  messages_.erase(messages_.size() - 1);
  waiting_ = std::exchange(said_, {});
}

ChatSession::Outcome ChatSession::command(std::string_view line) {
  line = trimmed_line(line);
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string name(line.substr(0, end)), rest(trimmed_line(line.substr(end)));
  const auto file = [&] {
    if (rest.empty()) fail(ErrorKind::kUsage, "{}: expected a file", name);
    return rest;
  };
  if (name == "/help" || name == "/?") return {Next::kRead, kHelp};
  if (name == "/quit" || name == "/exit" || name == "/bye") return {Next::kEnd, ""};
  if (name == "/clear") {
    messages_ = Json::array();
    waiting_ = said_ = {};
    return {Next::kRead, "a new conversation"};
  }
  if (name == "/system") return change_system(rest);
  if (name == "/set") return {Next::kRead, set_by_line(rest)};
  if (name == "/save") return {Next::kRead, save(file())};
  if (name == "/load") return {Next::kRead, load(file())};
  if (name == "/image") return {Next::kRead, add_image(file())};
  if (name == "/read") return {Next::kRead, add_text(file())};
  if (name == "/again") return answer_again();
  if (name == "/undo") return {Next::kRead, undo()};
  fail(ErrorKind::kUsage, "{}: no such command; /help shows them", name);
}

ChatSession::Outcome ChatSession::change_system(const std::string& text) {
  system_ = text;
  return {Next::kRead, text.empty() ? "no system prompt" : "a new system prompt"};
}

std::string ChatSession::set_by_line(const std::string& words) {
  if (words.empty()) {
    std::string text;
    for (const ChatSetting& setting : chat_settings())
      text += fmt::format("{}  {:<22} {}", text.empty() ? "" : "\n", setting.name,
                          settings_.contains(setting.name) ? dump_json(settings_[setting.name]) : "as the model says");
    return text;
  }
  const size_t end = std::min(words.find_first_of(" \t"), words.size());
  const std::string name = setting_of(words.substr(0, end)).name,
                    word(trimmed_line(std::string_view(words).substr(end)));
  if (word.empty()) {
    settings_.erase(name);
    return name + " is as the model says";
  }
  set(name, word);
  return fmt::format("{} is {}", name, dump_json(settings_[name]));
}

std::string ChatSession::save(const std::string& file) const {
  Json messages = Json::array();
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
  for (const Json& message : messages_) messages.push_back(message);
  AtomicFile out(file);
  out.write(dump_json(Json{{"messages", messages}, {"settings", settings_}}) + "\n");
  out.commit();
  return fmt::format("{} messages in {}", messages.size(), file);
}

std::string ChatSession::load(const std::string& file) {
  Json read = parse_json(read_file(file), file);
  Json messages = read.is_object() && read.contains("messages") ? read["messages"] : read;
  if (!messages.is_array()) fail("{}: expected a list of messages, or an object with \"messages\"", file);
  std::string system;
  Json turns = Json::array(), settings = settings_;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (!is_turn(message)) fail("{}: messages[{}]: expected {{\"role\", \"content\"}}", file, i);
    if (i == 0 && message["role"] == "system" && message["content"].is_string())
      system = message["content"].get<std::string>();
    else turns.push_back(message);
  }
  if (read.is_object() && read.contains("settings")) {
    if (!read["settings"].is_object()) fail("{}: settings: expected an object", file);
    settings = Json::object();
    for (const auto& [name, value] : read["settings"].items())
      settings[name] = value_of_word(setting_of(name), value.is_string() ? value.get<std::string>() : dump_json(value));
  }
  system_ = system;
  messages_ = std::move(turns);
  settings_ = std::move(settings);
  waiting_ = said_ = {};
  return fmt::format("{} messages of {}", messages_.size() + (system_.empty() ? 0 : 1), file);
}

std::string ChatSession::add_image(const std::string& file) {
  constexpr uintmax_t kMostBytes = 25 << 20;  // of a request to a server
  const std::string bytes = read_file(file);
  if (bytes.empty()) fail("{}: is empty: expected a picture", file);
  if (bytes.size() > kMostBytes) fail("{}: has {} bytes; at most {} are taken", file, bytes.size(), kMostBytes);
  waiting_.images.push_back(
      {{"type", "image_url"},
       {"image_url", {{"url", fmt::format("data:{};base64,{}", media_type_of(bytes), to_base64(bytes))}}}});
  return fmt::format("{} goes with the next turn", file);
}

std::string ChatSession::add_text(const std::string& file) {
  const std::string text = read_file(file);
  waiting_.text += (waiting_.text.empty() ? "" : "\n") + text;
  return fmt::format("{} goes with the next turn: {} bytes", file, text.size());
}

ChatSession::Outcome ChatSession::answer_again() {
  if (!messages_.empty() && messages_.back()["role"] == "assistant") messages_.erase(messages_.size() - 1);
  if (messages_.empty()) fail(ErrorKind::kUsage, "/again: nothing was said yet");
  said_ = {};
  return {Next::kAnswer, ""};
}

std::string ChatSession::undo() {
  if (messages_.empty()) fail(ErrorKind::kUsage, "/undo: nothing was said yet");
  if (messages_.back()["role"] == "assistant") messages_.erase(messages_.size() - 1);
  if (!messages_.empty() && messages_.back()["role"] == "user") messages_.erase(messages_.size() - 1);
  return fmt::format("{} messages are left", messages_.size());
}

}  // namespace transom
