// SPDX-License-Identifier: Apache-2.0
// transom generate --server: completions and chats of OpenAI's interface, printed as they come.
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "cli/remote_server.h"
#include "client/event_stream.h"
#include "generation/generation_fields.h"

namespace transom {
namespace {

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// The fields of a request that stand for those of a generation configuration.
Json body_of_fields(const GivenFields& fields, bool chat) {
  Json body{{"temperature", 0}};
  Json temperature = 1;
  bool samples = false;
  int64_t beams = 1;
  for (const auto& [name, word] : fields) {
    Json value;
    try {
      value = generation_value(name, word);
    } catch (const Error& error) {
      fail(ErrorKind::kUsage, "--{}", error.what());
    }
    if (value.is_null()) continue;
    if (name == "do_sample") samples = value == true;
    else if (name == "temperature") temperature = value;
    else if (name == "max_new_tokens") body["max_tokens"] = value;
    else if (name == "num_return_sequences") body["n"] = value;
    else if (name == "stop_strings") body["stop"] = value;
    else if (name == "min_new_tokens") body["min_tokens"] = value;
    else if (name == "eos_token_id") body["stop_token_ids"] = value.is_array() ? value : Json::array({value});
    else if (name == "top_p" || name == "top_k" || name == "min_p" || name == "typical_p" ||
             name == "repetition_penalty" || name == "seed")
      body[name] = value;
    else if (name == "num_beams" && value.is_number_integer()) beams = value.get<int64_t>();
    else if (name == "length_penalty" || name == "early_stopping") body[name] = value;
    else fail(ErrorKind::kUsage, "--{}: a server has no such field", name);
  }
  if (beams > 1 && samples) fail(ErrorKind::kUsage, "--num_beams: a server draws no beams; leave out --do_sample");
  if (beams > 1) body["use_beam_search"] = true, body["best_of"] = beams;
  if (samples) body["temperature"] = temperature;
  // The interface writes 16 tokens to a prompt without a number; generate() 20.
  if (!chat && !body.contains("max_tokens")) body["max_tokens"] = 20;
  return body;
}

// Takes the pieces of a stream to `take`; remembers what went wrong.
class Writing final : public client::ClientListener {
 public:
  explicit Writing(std::function<void(size_t choice, const std::string& piece)> take)
      : take_(std::move(take)), events_([this](std::string_view data) { take_event(data); }) {}

  void on_head(int status) override { status_ = status; }
  void on_body(std::string_view piece) override {
    if (status_ == 200) events_.add(piece);
    else if (body_.size() < 100'000) body_ += piece;
  }
  void on_end(const std::string& why) override {
    if (status_ == 200) events_.end();
    if (!why.empty()) error = why;
    else if (status_ != 200) error = fmt::format("status {}: {}", status_, message_of(body_));
  }
  // The server says that it is not ready for the request; nothing of it has been done.
  bool is_refused_for_now() const { return status_ == 503; }
  std::string error;

 private:
  static std::string message_of(const std::string& body) {
    const Json json = Json::parse(body, nullptr, false);
    if (json.is_object() && json.contains("error") && json["error"].is_object() && json["error"].contains("message") &&
        json["error"]["message"].is_string())
      return json["error"]["message"].get<std::string>();
    return quoted(body, 200);
  }

  void take_event(std::string_view data) {
    if (data == "[DONE]") return;
    const Json event = Json::parse(data, nullptr, false);
    if (!event.is_object()) {
      error = "the stream holds an event that is no JSON object";
      return;
    }
    if (event.contains("error")) {
      error = message_of(std::string(data));
      return;
    }
    const Json choices = event.value("choices", Json::array());
    for (const Json& choice : choices) {
      if (!choice.is_object()) continue;
      const Json index = choice.value("index", Json(0));
      const Json delta = choice.value("delta", Json());
      const Json text = delta.is_object() ? delta.value("content", Json()) : choice.value("text", Json());
      if (text.is_string() && index.is_number_unsigned() && index.get<size_t>() < 1024)
        take_(index.get<size_t>(), text.get<std::string>());
    }
  }

  std::function<void(size_t, const std::string&)> take_;
  client::EventStream events_;
  int status_ = 0;
  std::string body_;
};

// The texts of all choices, each given to `take` as it comes.
std::vector<std::string> ask(const client::HttpUrl& server, const RequestHeaders& headers, const std::string& path,
                             const Json& body, const std::function<void(const std::string&)>& take) {
  std::vector<std::string> texts(std::max<size_t>(1, body.value("n", size_t{1})));
  for (Patience patience;; patience.wait()) {
    const auto writing = std::make_shared<Writing>([&](size_t choice, const std::string& piece) {
      if (choice >= texts.size()) return;
      texts[choice] += piece;
      if (take) take(piece);
    });
    client::HttpClient client(server);
    client.send({.method = "POST", .path = path, .body = dump_json(body), .headers = headers}, writing);
    client.run();
    if (writing->error.empty()) return texts;
    if (!writing->is_refused_for_now() || patience.is_over()) fail("{}{}: {}", server.text(), path, writing->error);
  }
}

}  // namespace

void remote_generate(const RemoteOptions& remote, const std::string& model, const std::vector<std::string>& prompts,
                     const std::string& messages, const GivenFields& fields, bool json) {
  const client::HttpUrl server = client::parse_http_url(*remote.server, "--server");
  const RequestHeaders headers = key_headers(remote.api_key);
  const bool chat = !messages.empty();
  Json body = body_of_fields(fields, chat);
  body["model"] = model.empty() ? first_model_of(server, {}, headers, 0) : model;
  body["stream"] = true;
  const bool streams = !json && body.value("n", 1) == 1;
  Json results = Json::array();
  const auto go_on = [&](const std::string& path, const std::string& prompt, const Json& conversation) {
    bool begun = chat;
    const auto begin = [&] {
      if (!std::exchange(begun, true)) print(prompt);
    };
    const std::function<void(const std::string&)> shown = [&](const std::string& piece) {
      begin();
      print(piece);
    };
    const std::vector<std::string> texts = ask(server, headers, path, body, streams ? shown : nullptr);
    if (streams) begin(), print("\n");
    Json result = Json::array();
    for (const std::string& text : texts) {
      Json whole = prompt + text;
      if (chat) {
        whole = conversation;
        whole.push_back({{"role", "assistant"}, {"content", text}});
      }
      if (!json && !streams) print((chat ? text : prompt + text) + "\n");
      result.push_back({{"generated_text", std::move(whole)}});
    }
    const Json input = chat ? conversation : Json(prompt);
    if (prompts.size() + (chat ? 1 : 0) == 1) results = std::move(result);
    else results.push_back({{"input", input}, {"result", std::move(result)}});
  };
  for (const std::string& prompt : prompts) {
    body["prompt"] = prompt;
    go_on("/v1/completions", prompt, nullptr);
  }
  if (chat) {
    body.erase("prompt");
    body["messages"] = parse_json(messages, "--messages");
    go_on("/v1/chat/completions", "", body["messages"]);
  }
  if (json) print(dump_json(results) + "\n");
}

}  // namespace transom
