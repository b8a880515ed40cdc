// SPDX-License-Identifier: Apache-2.0
// The load generator and its client against a server that does what a test wants.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "apps/serve/http/server.h"
#include "base/error.h"
#include "base/json/json.h"
#include "support/command.h"
#include "support/folders.h"
#include "tools/bench/serve/load_run.h"

namespace transom {
namespace {

using serve::HttpRequest;
using serve::HttpResponse;
using serve::Responder;

// Writes as many words as a request asks for, a piece each few milliseconds.
class Words : public serve::HttpService {
 public:
  std::optional<HttpResponse> admit(const HttpRequest&, uint64_t& body_limit) override {
    body_limit = 1 << 20;
    return std::nullopt;
  }
  HttpResponse refusal(int status, const std::string& reason) override { return {.status = status, .body = reason}; }
  void handle(std::shared_ptr<HttpRequest> request, std::shared_ptr<Responder> responder) override {
    const std::lock_guard lock(mutex_);
    peers_.push_back(request->peer);
    threads_.emplace_back([this, request, responder] { answer(*request, *responder); });
  }
  ~Words() override {
    for (std::thread& thread : threads_) thread.join();
  }
  std::atomic<int> running{0}, most{0}, total{0};

 private:
  void answer(const HttpRequest& request, Responder& responder) {
    if (request.path == "/v1/models") return responder.respond({.status = 500, .body = "no list"});
    ++total;
    most = std::max<int>(most, ++running);
    const Json body = parse_json(request.body, "body");
    const auto count = body.value("max_tokens", 0);
    if (request.path == "/refuse") {
      responder.respond({.status = 429, .body = R"({"error":{"message":"too many"}})"});
    } else if (request.path == "/plain") {
      responder.respond({.status = 200, .body = "no stream"});
    } else if (request.path == "/v1/embeddings") {
      responder.respond({.status = 200, .body = R"({"data":[],"usage":{"prompt_tokens":3,"total_tokens":3}})"});
    } else {
      const bool chat = request.path == "/v1/chat/completions";
      responder.begin_stream({.status = 200, .content_type = "text/event-stream"});
      const auto write = [&](const Json& chunk) { responder.write("data: " + dump_json(chunk) + "\n\n"); };
      if (chat) write({{"choices", Json::array({{{"delta", {{"role", "assistant"}, {"content", ""}}}}})}});
      for (int i = 0; i < count; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (request.path == "/breaks" && i == 1) {
          write({{"error", {{"message", "broken"}}}});
          break;
        }
        responder.write(": ping\n\n");
        if (chat) write({{"choices", Json::array({{{"delta", {{"content", "w"}}}}})}});
        else write({{"choices", Json::array({{{"text", "w"}}})}});
      }
      if (chat) write({{"choices", Json::array({{{"delta", Json::object()}, {"finish_reason", "length"}}})}});
      write({{"choices", Json::array()}, {"usage", {{"prompt_tokens", 5}, {"completion_tokens", 2 * count}}}});
      responder.write("data: [DONE]\n\n");
      --running;
      responder.finish();
      return;
    }
    --running;
  }

  std::mutex mutex_;
  std::vector<std::string> peers_;
  std::vector<std::thread> threads_;
};

class LoadRun : public testing::Test {
 protected:
  LoadRun() : server_({.port = 0}, words_) { server_.start(); }
  ~LoadRun() override { server_.stop(); }
  LoadResult run(LoadTestOptions options, int64_t count, int64_t tokens, const std::vector<double>& times = {}) {
    options.model = "m";
    if (options.endpoint.empty()) options.endpoint = "/v1/completions";
    std::vector<LoadRequest> requests(static_cast<size_t>(count));
    for (LoadRequest& each : requests) each.prompt = "a", each.output_tokens = tokens;
    const std::vector<double> now(requests.size(), 0.0);
    return run_load(url(), {}, options, requests, times.empty() ? now : times);
  }
  client::HttpUrl url() { return client::parse_http_url("127.0.0.1:" + std::to_string(server_.port()), "url"); }
  Words words_;
  serve::HttpServer server_;
};

TEST_F(LoadRun, NotesWhenTextCame) {
  for (const LoadApi api : {LoadApi::kCompletions, LoadApi::kChat}) {
    const LoadResult result =
        run({.api = api, .endpoint = api == LoadApi::kChat ? "/v1/chat/completions" : "/v1/completions"}, 3, 4);
    for (const LoadOutcome& each : result.outcomes) {
      EXPECT_TRUE(each.success) << each.error;
      EXPECT_EQ(each.text, "wwww");
      EXPECT_EQ(each.gaps.size(), 3u);  // neither the role nor the end of a chat is a token
      EXPECT_EQ(each.prompt_tokens, 5);
      EXPECT_EQ(each.output_tokens, 8);
      EXPECT_GE(each.first_token, 0.009);
      double sum = each.first_token;
      for (const double gap : each.gaps) sum += gap;
      EXPECT_NEAR(sum, each.latency, 1e-6);
      EXPECT_LE(each.latency, result.duration);
    }
  }
}

TEST_F(LoadRun, KeepsTheConcurrency) {
  const LoadResult result = run({.max_concurrency = 3}, 12, 3);
  EXPECT_LE(words_.most, 3);
  EXPECT_EQ(words_.total, 12);
  double queued = 0;
  for (const LoadOutcome& each : result.outcomes) {
    EXPECT_TRUE(each.success) << each.error;
    queued = std::max(queued, each.queued);
  }
  EXPECT_GE(queued, 0.06);  // the last three waited for three rounds of 30 ms
}

TEST_F(LoadRun, ArrivesWhateverTheServerDoes) {
  const LoadResult result = run({}, 5, 10, {0, 0.02, 0.04, 0.06, 0.08});
  EXPECT_GE(words_.most, 4);
  for (size_t i = 0; i < 5; ++i) EXPECT_GE(result.outcomes[i].start, 0.02 * static_cast<double>(i) - 1e-3);
}

TEST_F(LoadRun, SaysWhyRequestsFail) {
  const auto error = [&](const char* path) { return run({.endpoint = path}, 1, 3).outcomes[0].error; };
  EXPECT_EQ(error("/refuse"), "status 429: too many");
  EXPECT_EQ(error("/breaks"), "broken");
  EXPECT_NE(error("/plain").find("before any text"), std::string::npos);
  EXPECT_EQ(run({.num_warmups = 2}, 1, 1).outcomes.size(), 1u);
  const LoadResult vectors = run({.api = LoadApi::kEmbeddings, .endpoint = "/v1/embeddings"}, 2, 1);
  EXPECT_TRUE(vectors.outcomes[1].success) << vectors.outcomes[1].error;
  EXPECT_EQ(vectors.outcomes[1].prompt_tokens, 3);
  server_.stop();
  EXPECT_NE(error("/v1/completions").find("cannot connect"), std::string::npos);
}

// `transformers serve` without a network lists nothing.
TEST_F(LoadRun, AsksServersThatDoNotListTheirModels) {
  const std::string ask =
      fmt::format("{}/bin/transom bench serve --base_url http://127.0.0.1:{} --num_prompts 2 --json - ",
                  test::build_folder(), server_.port());
  const test::CommandOutcome named = test::run_command(ask + "--model m");
  EXPECT_EQ(named.status, 0) << named.output;
  EXPECT_NE(named.output.find("\"completed\": 2"), std::string::npos) << named.output;
  const test::CommandOutcome unnamed = test::run_command(ask);
  EXPECT_EQ(unnamed.status, 1);
  EXPECT_NE(unnamed.output.find("status 500: 'no list'; name a model with --model"), std::string::npos)
      << unnamed.output;
}

TEST_F(LoadRun, FetchesOneAnswer) {
  EXPECT_EQ(client::fetch(url(), {.method = "POST", .path = "/plain", .body = "{}"}).body, "no stream");
  EXPECT_EQ(client::fetch(url(), {.method = "POST", .path = "/refuse", .body = "{}"}).status, 429);
  EXPECT_THROW(client::fetch(url(), {.method = "POST", .path = "/plain", .body = "{}"}, {}, 3), Error);
  EXPECT_THROW(client::fetch(url(), {.path = "/plain", .headers = {{"A", "b\r\nC: d"}}}), Error);
  EXPECT_THROW(client::HttpClient(client::parse_http_url("http://no.such.host.invalid", "url")), Error);
}

}  // namespace
}  // namespace transom
