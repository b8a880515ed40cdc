// SPDX-License-Identifier: Apache-2.0
// A router before servers that say who they are, and before two real ones.
#include "apps/route/route_service.h"

#include <gtest/gtest.h>

#include <thread>

#include "apps/serve/golden_server.h"
#include "base/error.h"

namespace transom {
namespace {

using test::Client;
using test::golden_model;
using test::json_of;

// Answers with its name; /stream in parts, of which the last one waits until `left` or a second is over.
class NamedServer : public serve::HttpService {
 public:
  explicit NamedServer(std::string name, std::string model = "m") : name_(std::move(name)), model_(std::move(model)) {
    server_.start();
  }
  ~NamedServer() override { server_.stop(); }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
  void end() { server_.stop(); }

  std::optional<serve::HttpResponse> admit(const serve::HttpRequest&, uint64_t& limit) override {
    limit = 1 << 20;
    return std::nullopt;
  }
  void handle(std::shared_ptr<serve::HttpRequest> request, std::shared_ptr<serve::Responder> responder) override {
    if (request->path == "/v1/models")
      return responder->respond({.body = R"({"object":"list","data":[{"id":")" + model_ + R"("}]})"});
    if (request->path != "/health") ++asked;
    if (is_ending && request->path != "/health") return responder->respond({.status = 503, .body = "ending"});
    if (request->path != "/stream") {
      serve::HttpResponse answer{.body = name_ + request->body, .content_type = "text/plain"};
      answer.headers.emplace_back("X-Name", name_ + (request->header("x-own") ? *request->header("x-own") : ""));
      return responder->respond(answer);
    }
    responder->on_gone([this] { gone = true; });
    responder->begin_stream({.body = "data: 1\n\n", .content_type = "text/event-stream"});
    waiting_ = std::jthread([responder, this] {
      for (int i = 0; i < 100 && !gone && !stream_goes_on; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      responder->write("data: 2\n\n");
      responder->finish();
    });
  }
  serve::HttpResponse refusal(int status, const std::string& reason) override {
    return {.status = status, .body = reason};
  }
  std::atomic<int> asked{0};
  std::atomic<bool> gone{false}, stream_goes_on{false}, is_ending{false};

 private:
  std::string name_, model_;
  serve::HttpServer server_{serve::HttpOptions{.port = 0}, *this};
  std::jthread waiting_;
};

std::unique_ptr<route::RouteService> route_to(std::vector<std::string> urls) {
  route::RouteOptions options{.servers = std::move(urls), .look_every = std::chrono::milliseconds(50)};
  options.http.port = 0;
  auto service = std::make_unique<route::RouteService>(options);
  service->start();
  return service;
}

test::Answer ask(const route::RouteService& service, const std::string& method, const std::string& path,
                 const std::string& body = "", const std::string& headers = "") {
  Client client(service.port());
  client.send_request(method, path, body, headers);
  return client.read_answer();
}

std::string prompt(char letter, const std::string& model = "m") {
  return R"({"model":")" + model + R"(","prompt":")" + std::string(400, letter) + R"("})";
}

TEST(RouteService, TextsThatBeginAlikeGoToOneServer) {
  NamedServer first("first "), second("second ");
  const auto service = route_to({first.url(), second.url()});
  std::map<char, std::string> servers;
  for (int round = 0; round < 3; ++round)
    for (const char letter : {'a', 'b', 'c'}) {
      const test::Answer answer = ask(*service, "POST", "/v1/completions", prompt(letter), "X-Own: here\r\n");
      EXPECT_EQ(answer.status, 200);
      EXPECT_TRUE(answer.body.ends_with(prompt(letter)));
      EXPECT_TRUE(answer.headers.at("x-name").ends_with("here"));
      const std::string name = answer.body.substr(0, answer.body.find(' '));
      if (round > 0) {
        EXPECT_EQ(servers[letter], name);
      }
      servers[letter] = name;
    }
  // Servers that have nothing to do take turns.
  EXPECT_NE(servers['a'], servers['b']);
  EXPECT_GT(first.asked, 0);
  EXPECT_GT(second.asked, 0);
  const std::string metrics = ask(*service, "GET", "/metrics").body;
  EXPECT_NE(metrics.find("transom_route_prefix_hits_total 6\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("transom_route_requests_total 9\n"), std::string::npos) << metrics;
}

TEST(RouteService, ModelsHaveTheirServers) {
  NamedServer first("first ", "a"), second("second ", "b");
  const auto service = route_to({first.url(), second.url()});
  EXPECT_EQ(json_of(ask(*service, "GET", "/v1/models"))["data"].size(), 2u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(ask(*service, "POST", "/v1/completions", prompt('x', "b")).body.starts_with("second "));
    EXPECT_TRUE(ask(*service, "POST", "/v1/completions", prompt('x', "a")).body.starts_with("first "));
  }
}

TEST(RouteService, AsksAnotherBeforeTheFirstByte) {
  NamedServer first("first "), second("second ");
  const auto service = route_to({first.url(), second.url()});
  first.is_ending = true;
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(ask(*service, "POST", "/v1/completions", prompt('x')).body.starts_with("second "));
  first.end();
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(ask(*service, "POST", "/v1/completions", prompt(static_cast<char>('a' + i))).status, 200);
  second.end();
  const test::Answer none = ask(*service, "POST", "/v1/completions", prompt('x'));
  EXPECT_EQ(none.status, 503);
  EXPECT_NE(json_of(none)["error"]["message"].get<std::string>().find("no server answers"), std::string::npos);
  for (int i = 0; i < 100 && service->answering() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(ask(*service, "GET", "/health").status, 503);
}

TEST(RouteService, PassesStreamsOnAsTheyCome) {
  NamedServer server("only ");
  const auto service = route_to({server.url()});
  Client client(service->port());
  client.send_request("POST", "/stream", "{}");
  while (client.buffer().find("data: 1") == std::string::npos) ASSERT_TRUE(client.receive());
  server.stream_goes_on = true;
  const test::Answer answer = client.read_answer();
  EXPECT_EQ(answer.body, "data: 1\n\ndata: 2\n\n");
  EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream");
}

TEST(RouteService, ServersHearThatTheClientHasLeft) {
  NamedServer server("only ");
  const auto service = route_to({server.url()});
  {
    Client client(service->port());
    client.send_request("POST", "/stream", "{}");
    while (client.buffer().find("data: 1") == std::string::npos) ASSERT_TRUE(client.receive());
  }
  for (int i = 0; i < 90 && !server.gone; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(server.gone);
}

TEST(RouteService, RefusesWhatOneServerKeepsAndOtherSites) {
  NamedServer server("only ");
  const auto service = route_to({server.url()});
  EXPECT_EQ(ask(*service, "GET", "/v1/files").status, 501);
  EXPECT_EQ(ask(*service, "GET", "/x", "", "Origin: http://example.com\r\n").status, 403);
  EXPECT_EQ(ask(*service, "GET", "/x", "", "Origin: http://localhost:99\r\n").status, 200);
  EXPECT_EQ(server.asked, 1);
  EXPECT_THROW(route::RouteService({.servers = {}}), Error);
  EXPECT_THROW(route::RouteService({.servers = {server.url(), server.url()}}), Error);
}

TEST(RouteService, TwoRealServers) {
  if (!test::has_golden("llama-lm")) return;
  serve::ServeOptions options;
  options.models = {golden_model("llama-lm", "lm")};
  auto first = test::start_server(options), second = test::start_server(options);
  const auto url = [](const serve::Server& server) { return "http://127.0.0.1:" + std::to_string(server.port()); };
  const auto service = route_to({url(*first), url(*second)});
  const std::string body = R"({"model":"lm","prompt":[5,6,7,8],"max_tokens":6,"temperature":0)";
  const auto text = [&] {
    const test::Answer answer = ask(*service, "POST", "/v1/completions", body + "}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json_of(answer)["choices"][0].dump();
  };
  const std::string before = text();
  const test::Answer stream = ask(*service, "POST", "/v1/completions", body + R"(,"stream":true})");
  EXPECT_EQ(test::events_of(stream.body).back(), "[DONE]") << stream.body;
  EXPECT_EQ(json_of(ask(*service, "GET", "/v1/models"))["data"].size(), 1u);
  first->stop();
  EXPECT_EQ(text(), before);
  EXPECT_EQ(text(), before);
}

TEST(PrefixPlaces, FindTheLongestBeginningWithinTheirBound) {
  route::PrefixPlaces places(8);
  const std::string shared(256, 'x');
  places.remember(shared + std::string(256, 'a'), 1);
  places.remember(shared, 0);
  EXPECT_EQ(places.find(shared + std::string(300, 'a')), 1u);
  EXPECT_EQ(places.find(shared + "b"), 0u);
  EXPECT_EQ(places.find("short"), std::nullopt);
  places.remember(std::string(4096, 'z'), 2);
  EXPECT_LE(places.size(), 8u);
  EXPECT_EQ(places.find(shared), std::nullopt);
}

TEST(RoutedBody, IsReadInTheOrderOfPrompts) {
  const route::RoutedBody one = route::read_body(R"({"messages":[1],"tools":[2],"model":"m","seed":3})");
  EXPECT_EQ(one.model, "m");
  EXPECT_EQ(one.beginning, "m\n[2][1]");
  EXPECT_EQ(route::read_body("{").beginning, "");
  EXPECT_EQ(route::read_body("[1]").model, "");
}

}  // namespace
}  // namespace transom
