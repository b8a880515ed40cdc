// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/serve/load_run.h"

#include <deque>

#include "base/error.h"
#include "base/json/json.h"
#include "tools/client/event_stream.h"

namespace transom {
namespace {

using client::Clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string short_text(const std::string& body) { return body.size() > 300 ? body.substr(0, 300) + " ..." : body; }

// The message of an error's body, in whichever form the server writes it.
std::string message_of(const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("error")) return short_text(body);
  const Json& error = json["error"];
  if (error.is_string()) return error.get<std::string>();
  if (error.is_object() && error.contains("message") && error["message"].is_string())
    return error["message"].get<std::string>();
  return short_text(body);
}

// Takes one answer apart while it comes.
class Reading final : public client::ClientListener {
 public:
  Reading(LoadOutcome& outcome, LoadApi api, Clock::time_point sent, std::function<void()> ended)
      : outcome_(outcome), api_(api), sent_(sent), ended_(std::move(ended)), events_([this](std::string_view data) {
          take(data);
        }) {}

  void on_head(int status) override { status_ = status; }

  void on_body(std::string_view piece) override {
    now_ = Clock::now();
    if (status_ == 200 && api_ != LoadApi::kEmbeddings) {
      if (!events_.add(piece)) outcome_.error = "an event of the stream is larger than 64 MiB";
    } else if (body_.size() + piece.size() <= (64u << 20)) {
      body_ += piece;
    }
  }

  void on_end(const std::string& error) override {
    now_ = Clock::now();
    try {
      finish(error);
    } catch (const std::exception& failure) {
      outcome_.error = fmt::format("the answer is not what was expected: {}", failure.what());
    }
    outcome_.success = outcome_.error.empty();
    ended_();
  }

 private:
  void finish(const std::string& error) {
    if (!error.empty()) outcome_.error = error;
    else if (status_ != 200) outcome_.error = fmt::format("status {}: {}", status_, message_of(body_));
    if (!outcome_.error.empty()) return;
    if (api_ == LoadApi::kEmbeddings) {
      const Json answer = parse_json(body_, "answer");
      outcome_.latency = outcome_.first_token = seconds_between(sent_, now_);
      take_usage(answer);
      return;
    }
    events_.end();
    if (first_chunk_ == Clock::time_point() && outcome_.error.empty())
      outcome_.error = "the stream ended before any text";
    if (outcome_.first_token == 0) {
      // Tokens without text, special ones: the chunks themselves count.
      outcome_.first_token = seconds_between(sent_, first_chunk_);
      outcome_.latency = seconds_between(sent_, last_chunk_);
    } else {
      outcome_.latency = seconds_between(sent_, last_text_);
    }
  }

  void take(std::string_view data) {
    if (data == "[DONE]") return;
    const Json chunk = Json::parse(data, nullptr, false);
    if (!chunk.is_object()) {
      outcome_.error = "the stream holds an event that is no JSON object";
      return;
    }
    if (chunk.contains("error")) {
      outcome_.error = message_of(std::string(data));
      return;
    }
    if (const auto choices = chunk.find("choices"); choices != chunk.end() && choices->is_array() && !choices->empty())
      take_choice(choices->front());
    take_usage(chunk);
  }

  void take_choice(const Json& choice) {
    if (!choice.is_object()) return;
    last_chunk_ = now_;
    if (first_chunk_ == Clock::time_point()) first_chunk_ = now_;
    std::string text;
    const auto add = [&](const Json& object, const char* name) {
      if (const auto found = object.find(name); found != object.end() && found->is_string())
        text += found->get<std::string>();
    };
    bool called = false;
    if (const auto delta = choice.find("delta"); delta != choice.end() && delta->is_object()) {
      add(*delta, "reasoning_content");
      add(*delta, "reasoning");
      add(*delta, "content");
      called = delta->contains("tool_calls");
    } else {
      add(choice, "text");
    }
    // The first chunk of a chat names the role and the last one the reason: neither is a token.
    if (text.empty() && !called) return;
    if (outcome_.first_token == 0) outcome_.first_token = std::max(1e-9, seconds_between(sent_, now_));
    else outcome_.gaps.push_back(seconds_between(last_text_, now_));
    last_text_ = now_;
    outcome_.text += text;
  }

  void take_usage(const Json& answer) {
    const auto usage = answer.find("usage");
    if (usage == answer.end() || !usage->is_object()) return;
    const auto read = [&](const char* name, int64_t& to) {
      if (const auto found = usage->find(name); found != usage->end() && found->is_number_integer())
        to = found->get<int64_t>();
    };
    read("prompt_tokens", outcome_.prompt_tokens);
    read("completion_tokens", outcome_.output_tokens);
  }

  LoadOutcome& outcome_;
  LoadApi api_;
  Clock::time_point sent_, now_{}, first_chunk_{}, last_chunk_{}, last_text_{};
  std::function<void()> ended_;
  client::EventStream events_;
  int status_ = 0;
  std::string body_;
};

class Load {
 public:
  Load(const client::HttpUrl& server, const client::ClientOptions& connection, const LoadTestOptions& options,
       std::span<const LoadRequest> requests, const std::function<void(size_t)>& done)
      : client_(server, connection), options_(options), requests_(requests), done_(done) {
    result_.outcomes.resize(requests.size());
    arrived_.resize(requests.size());
  }

  LoadResult run(std::span<const double> times) {
    start_ = Clock::now();
    for (size_t i = 0; i < requests_.size(); ++i) {
      const auto at = start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(times[i]));
      client_.at(at, [this, i] { arrive(i); });
    }
    client_.run();
    result_.duration = seconds_between(start_, Clock::now());
    return std::move(result_);
  }

 private:
  void arrive(size_t number) {
    arrived_[number] = Clock::now();
    if (options_.max_concurrency > 0 && running_ >= options_.max_concurrency) waiting_.push_back(number);
    else send(number);
  }

  void send(size_t number) {
    ++running_;
    LoadOutcome& outcome = result_.outcomes[number];
    outcome.prompt_tokens = requests_[number].prompt_tokens;
    client::ClientRequest request{.method = "POST", .path = options_.endpoint, .headers = options_.headers};
    request.body = load_body(options_, requests_[number]);
    const Clock::time_point now = Clock::now();
    outcome.start = seconds_between(start_, now);
    outcome.queued = seconds_between(arrived_[number], now);
    client_.send(std::move(request), std::make_shared<Reading>(outcome, options_.api, now, [this] { end(); }));
  }

  void end() {
    --running_;
    ++ended_;
    if (done_) done_(ended_);
    if (waiting_.empty()) return;
    const size_t next = waiting_.front();
    waiting_.pop_front();
    send(next);
  }

  client::HttpClient client_;
  const LoadTestOptions& options_;
  std::span<const LoadRequest> requests_;
  const std::function<void(size_t)>& done_;
  LoadResult result_;
  std::vector<Clock::time_point> arrived_;
  std::deque<size_t> waiting_;
  Clock::time_point start_;
  int64_t running_ = 0;
  size_t ended_ = 0;
};

}  // namespace

std::string load_body(const LoadTestOptions& options, const LoadRequest& request) {
  Json body{{"model", options.model}};
  const Json prompt = request.messages ? parse_json(request.prompt, "messages") : Json(request.prompt);
  if (request.messages && options.api != LoadApi::kChat)
    fail(ErrorKind::kUsage, "the data set holds chats: ask for them with --backend openai-chat");
  switch (options.api) {
    case LoadApi::kEmbeddings:
      body["input"] = prompt;
      break;
    case LoadApi::kCompletions:
      body["prompt"] = prompt;
      body["max_tokens"] = request.output_tokens;
      break;
    case LoadApi::kChat:
      body["messages"] = request.messages ? prompt : Json::array({{{"role", "user"}, {"content", prompt}}});
      body["max_completion_tokens"] = request.output_tokens;
      body["max_tokens"] = request.output_tokens;  // servers that do not know the newer name
      break;
  }
  if (options.api != LoadApi::kEmbeddings) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    if (options.ignore_eos) body["ignore_eos"] = true;
  }
  if (!options.extra_body.empty()) {
    const Json extra = parse_json(options.extra_body, "--extra_body");
    if (!extra.is_object()) fail(ErrorKind::kUsage, "--extra_body: expected a JSON object");
    body.update(extra);
  }
  return dump_json(body);
}

LoadResult run_load(const client::HttpUrl& server, const client::ClientOptions& connection,
                    const LoadTestOptions& options, std::span<const LoadRequest> requests,
                    std::span<const double> times, const std::function<void(size_t)>& done) {
  if (requests.size() != times.size()) fail(ErrorKind::kInternal, "a time for each request is needed");
  for (const LoadRequest& request : requests) load_body(options, request);  // what is wrong is said before any is sent
  if (options.num_warmups > 0 && !requests.empty()) {
    const std::vector<LoadRequest> warmups(static_cast<size_t>(options.num_warmups), requests[0]);
    const std::vector<double> now(warmups.size(), 0.0);
    const std::function<void(size_t)> nobody;
    Load(server, connection, options, warmups, nobody).run(now);
  }
  return Load(server, connection, options, requests, done).run(times);
}

}  // namespace transom
