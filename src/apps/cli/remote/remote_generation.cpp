// SPDX-License-Identifier: Apache-2.0
// transom generate --server: completions and chats of OpenAI's interface, printed as they come.
#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "apps/cli/remote/remote_server.h"
#include "base/error.h"
#include "base/json/json.h"
#include "tools/client/event_stream.h"
#include "work/generation/generation_fields.h"

namespace transom {
namespace {

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

const std::set<std::string, std::less<>> kSent{
    "max_length", "max_new_tokens", "min_length",   "min_new_tokens", "stop_strings",   "do_sample",
    "num_beams",  "top_k",          "top_p",        "min_p",          "length_penalty", "num_return_sequences",
    "typical_p",  "temperature",    "eos_token_id", "early_stopping", "seed",           "repetition_penalty"};

// What the checkpoint of a server and the command line say, and what of it was said at all.
struct Asked {
  GenerationConfig config;
  bool knows_checkpoint = false, gives_ends = false;
};

Asked asked_for(const std::string& checkpoint, const GivenFields& fields) {
  Asked asked;
  if (!checkpoint.empty()) asked.config.update(checkpoint), asked.knows_checkpoint = true;
  for (const auto& [name, word] : fields) {
    if (!kSent.contains(name)) fail(ErrorKind::kUsage, "--{}: a server has no such field", name);
    try {
      set_generation_field(asked.config, name, word);
    } catch (const Error& error) {
      fail(ErrorKind::kUsage, "--{}", error.what());
    }
    asked.gives_ends = asked.gives_ends || name == "eos_token_id";
  }
  if (asked.config.num_beams > 1 && asked.config.do_sample)
    fail(ErrorKind::kUsage, "--num_beams: a server draws no beams; leave out --do_sample");
  return asked;
}

// The fields of a request but for the lengths. Everything is said, as what a server takes where nothing is said is not
// what generate() takes.
Json body_of(const Asked& asked) {
  const GenerationConfig& config = asked.config;
  Json body{{"stream", true}, {"temperature", config.do_sample ? config.temperature : 0}};
  if (config.do_sample) {
    body["top_k"] = config.top_k > 0 ? config.top_k : -1;
    body["top_p"] = config.top_p;
    if (config.typical_p != 1) body["typical_p"] = config.typical_p;
    if (config.min_p) body["min_p"] = *config.min_p;
    body["seed"] = config.seed;
  }
  if (config.repetition_penalty != 1 || asked.knows_checkpoint) body["repetition_penalty"] = config.repetition_penalty;
  if (config.num_return_sequences > 1) body["n"] = config.num_return_sequences;
  if (config.num_beams > 1) {
    using enum GenerationConfig::EarlyStopping;
    body["use_beam_search"] = true;
    body["best_of"] = config.num_beams;
    body["length_penalty"] = config.length_penalty;
    body["early_stopping"] = config.early_stopping == kNever ? Json("never") : Json(config.early_stopping == kTrue);
  }
  if (!config.stop_strings.empty()) body["stop"] = config.stop_strings;
  // generate() writes what ends a text, with the rest of its token.
  body["include_stop_str_in_output"] = true;
  body["include_stop_token_in_output"] = true;
  if (asked.gives_ends) body["stop_token_ids"] = config.eos_token_id;
  if (asked.gives_ends || (asked.knows_checkpoint && config.eos_token_id.empty())) body["ignore_eos"] = true;
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
      const Json index = choice.value("index", Json());
      if (!index.is_number_unsigned()) {
        error = "the stream holds a choice without an index";
        return;
      }
      const Json delta = choice.value("delta", Json());
      const Json text = delta.is_object() ? delta.value("content", Json()) : choice.value("text", Json());
      if (text.is_string()) take_(index.get<size_t>(), text.get<std::string>());
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
      if (choice >= texts.size()) return;  // more than were asked for
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

// How many tokens the server makes of a prompt or a chat; none where it does not say.
std::optional<int64_t> tokens_of(const client::HttpUrl& server, const RequestHeaders& headers, const Json& body) {
  Json question{{"model", body["model"]}};
  for (const char* name : {"prompt", "messages"})
    if (body.contains(name)) question[name] = body[name];
  for (Patience patience;; patience.wait()) {
    const client::ClientReply reply =
        client::fetch(server, {.method = "POST", .path = "/tokenize", .body = dump_json(question), .headers = headers});
    if (reply.status == 503 && !patience.is_over()) continue;
    const Json json = Json::parse(reply.body, nullptr, false);
    if (reply.status != 200 || !json.is_object() || !json.contains("count") || !json["count"].is_number_unsigned())
      return std::nullopt;
    return json["count"].get<int64_t>();
  }
}

// As greatest_length() counts them: max_length and min_length are with the prompt.
void set_lengths(Json& body, const GenerationConfig& config, const client::HttpUrl& server,
                 const RequestHeaders& headers) {
  const bool counts = (!config.max_new_tokens && config.max_length) || config.min_length > 0;
  const std::optional<int64_t> prompt = counts ? tokens_of(server, headers, body) : std::nullopt;
  if (counts && !prompt)
    fail(
        "{}/tokenize: the server does not say how many tokens the prompt has; give --max_new_tokens in place of "
        "--max_length, and --min_new_tokens in place of --min_length",
        server.text());
  if (!config.max_new_tokens && config.max_length && *prompt >= *config.max_length)
    fail("max_length = {}, and the prompt has {} tokens; raise max_length or give max_new_tokens", *config.max_length,
         *prompt);
  body["max_tokens"] = config.max_new_tokens ? *config.max_new_tokens
                       : config.max_length   ? *config.max_length - *prompt
                                             : 20;
  int64_t least = config.min_new_tokens.value_or(0);
  if (config.min_length > 0) least = std::max(least, config.min_length - *prompt);
  if (least > 0) body["min_tokens"] = least;
}

}  // namespace

void remote_generate(const RemoteOptions& remote, const std::string& model, const std::vector<std::string>& prompts,
                     const std::string& messages, const GivenFields& fields, bool json) {
  const client::HttpUrl server = client::parse_http_url(*remote.server, "--server");
  const RequestHeaders headers = key_headers(remote.api_key);
  const bool chat = !messages.empty();
  const ServedModel served = remote_model(server, headers, model);
  const Asked asked = asked_for(served.generation_config, fields);
  Json body = body_of(asked);
  body["model"] = served.name;
  const bool streams = !json && body.value("n", 1) == 1;
  Json results = Json::array();
  uint64_t done = 0;
  const auto go_on = [&](const std::string& path, const std::string& prompt, const Json& conversation) {
    bool begun = chat;
    const auto begin = [&] {
      if (!std::exchange(begun, true)) print(prompt);
    };
    const std::function<void(const std::string&)> shown = [&](const std::string& piece) {
      begin();
      print(piece);
    };
    set_lengths(body, asked.config, server, headers);
    if (asked.config.do_sample) body["seed"] = asked.config.seed + done++;  // as generate draws several prompts
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
    const Json conversation = parse_json(messages, "--messages");
    body["messages"] = conversation;
    go_on("/v1/chat/completions", "", conversation);
  }
  if (json) print(dump_json(results) + "\n");
}

}  // namespace transom
