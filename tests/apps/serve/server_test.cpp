// SPDX-License-Identifier: Apache-2.0
// What all paths share: errors, keys, limits, health, drain.
#include <gtest/gtest.h>

#include <thread>

#include "apps/serve/golden_server.h"
#include "apps/serve/metrics/metrics.h"
#include "apps/serve/server/key_check.h"
#include "transom/error.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::golden_model;
using test::has_golden;
using test::json_of;

TEST(KeyCheck, TakesKnownKeysAlone) {
  const serve::KeyCheck keys({"first", "second"});
  const auto accepts = [&](const std::string& header) { return keys.find_in_header(&header).has_value(); };
  EXPECT_TRUE(accepts("Bearer first"));
  EXPECT_TRUE(accepts("bearer second"));
  EXPECT_FALSE(accepts("Bearer firs"));
  EXPECT_FALSE(accepts("Bearer firstx"));
  EXPECT_FALSE(accepts("Bearer "));
  EXPECT_FALSE(accepts("first"));
  EXPECT_FALSE(accepts("Basic first"));
  EXPECT_FALSE(keys.find_in_header(nullptr));
  EXPECT_EQ(keys.find("first"), 0u);
  EXPECT_EQ(keys.find("second"), 1u);
  EXPECT_THROW(serve::KeyCheck({""}), Error);
}

class ServerTest : public testing::Test {
 protected:
  void start(serve::ServeOptions options = {}) {
    if (!has_golden("mpnet-model")) GTEST_SKIP() << "no golden models";
    options.models = {golden_model("mpnet-model", "embed/mini")};
    server_ = test::start_server(std::move(options));
  }
  std::unique_ptr<serve::Server> server_;
};

TEST_F(ServerTest, TellsItsModels) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (!server_) return;
  Client client(server_->port());
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_EQ(client.get("/health").body, "");
  EXPECT_EQ(json_of(client.get("/version"))["version"], "test");
  const Json models = json_of(client.get("/v1/models"));
  EXPECT_EQ(models["data"][0]["id"], "embed/mini");
  EXPECT_EQ(models["data"][0]["max_model_len"], 62);
  for (const char* path : {"/v1/models/embed/mini", "/v1/models/embed%2Fmini"})
    EXPECT_EQ(json_of(client.get(path))["id"], "embed/mini") << path;
  const Answer unknown = client.get("/v1/models/other");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(json_of(unknown)["error"]["code"], "model_not_found");
}

TEST_F(ServerTest, RefusesInTheFormOfOpenAi) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (!server_) return;
  Client client(server_->port());
  const Answer path = client.get("/nowhere");
  EXPECT_EQ(path.status, 404);
  EXPECT_TRUE(json_of(path)["error"]["message"].is_string());
  const Answer method = client.get("/v1/embeddings");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST");
  struct Case {
    const char *body, *param;
  };
  for (const Case& each :
       {Case{"", nullptr}, Case{"[]", nullptr}, Case{"{", nullptr}, Case{"{\"input\":\"a\",\"input\":\"b\"}", nullptr},
        Case{"{\"input\":1e999}", nullptr}, Case{"{\"input\":NaN}", nullptr}, Case{"{\"input\":\"\\ud800\"}", nullptr},
        Case{"{\"input\":\"\xff\"}", nullptr}, Case{"{}", "input"}, Case{"{\"input\":7}", "input"},
        Case{"{\"input\":[]}", "input"}, Case{"{\"input\":[1,-5]}", "input"}, Case{"{\"input\":[99999999]}", "input"},
        Case{"{\"input\":[18446744073709551615]}", "input"}, Case{"{\"input\":\"\"}", "input"},
        Case{"{\"input\":\"a\",\"dimensions\":-1}", "dimensions"},
        Case{"{\"input\":\"a\",\"dimensions\":4096}", "dimensions"},
        Case{"{\"input\":\"a\",\"encoding_format\":\"hex\"}", "encoding_format"},
        Case{"{\"input\":\"a\",\"model\":3}", "model"}}) {
    const Answer answer = client.post("/v1/embeddings", each.body);
    EXPECT_EQ(answer.status, 400) << each.body << answer.body;
    const Json error = json_of(answer)["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    if (each.param) {
      EXPECT_EQ(error["param"], each.param) << each.body;
    }
  }
  const Answer deep =
      client.post("/v1/embeddings", "{\"input\":" + std::string(5000, '[') + std::string(5000, ']') + "}");
  EXPECT_EQ(deep.status, 400);
  std::string keys = "{\"input\":\"a\"";
  for (int i = 0; i < 5000; ++i) keys += ",\"k" + std::to_string(i) + "\":1";
  EXPECT_EQ(client.post("/v1/embeddings", keys + "}").status, 400);
  const Answer model = client.post("/v1/embeddings", R"({"model":"gpt-4","input":"a"})");
  EXPECT_EQ(model.status, 404);
  EXPECT_NE(json_of(model)["error"]["message"].get<std::string>().find("gpt-4"), std::string::npos);
  EXPECT_EQ(client.post("/v1/chat/completions", R"({"model":"embed/mini","messages":[]})").status, 400);
  std::string text = "word";
  for (int i = 0; i < 300; ++i) text += " word";
  const Answer long_text = client.post("/v1/embeddings", dump_json({{"input", text}}));
  EXPECT_EQ(long_text.status, 400);
  EXPECT_EQ(json_of(long_text)["error"]["code"], "context_length_exceeded");
  // A field that nobody knows yet is no error.
  EXPECT_EQ(client.post("/v1/embeddings", R"({"input":"a","new_field":{"a":[1]}})").status, 200);
  EXPECT_EQ(client.post("/v1/embeddings", R"({"input":"a","dimensions":null,"user":"me"})").status, 200);
}

TEST_F(ServerTest, AsksForTheKey) {
  ASSERT_NO_FATAL_FAILURE(start({.api_keys = {"secret"}}));
  if (!server_) return;
  Client client(server_->port());
  EXPECT_EQ(client.get("/health").status, 200);
  for (const char* path : {"/v1/models", "/metrics", "/version", "/nowhere"}) {
    Client other(server_->port());
    const Answer answer = other.get(path);
    EXPECT_EQ(answer.status, 401) << path;
    EXPECT_EQ(answer.headers.at("www-authenticate"), "Bearer");
    EXPECT_EQ(json_of(answer)["error"]["code"], "invalid_api_key");
  }
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer wrong\r\n").status, 401);
  EXPECT_EQ(Client(server_->port()).get("/v1/models", "Authorization: Bearer secret\r\n").status, 200);
  // Not a byte of a body is read without it.
  Client large(server_->port());
  large.send("POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n");
  EXPECT_EQ(large.read_answer().status, 401);
}

TEST_F(ServerTest, RefusesForeignHostsOnLoopback) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (!server_) return;
  Client client(server_->port());
  client.send("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 403);
  Client numbered(server_->port());
  numbered.send("GET /v1/models HTTP/1.1\r\nHost: 127.evil.example\r\n\r\n");
  EXPECT_EQ(numbered.read_answer().status, 403);
  for (const char* name : {"127.0.0.1:8000", "LocalHost", "host.docker.internal:8000", "host.containers.internal"}) {
    Client own(server_->port());
    own.send("GET /v1/models HTTP/1.1\r\nHost: " + std::string(name) + "\r\n\r\n");
    EXPECT_EQ(own.read_answer().status, 200) << name;
  }
  for (const char* name : {"other.internal", "host.docker.internal.evil.example"}) {
    Client other(server_->port());
    other.send("GET /v1/models HTTP/1.1\r\nHost: " + std::string(name) + "\r\n\r\n");
    EXPECT_EQ(other.read_answer().status, 403) << name;
  }
}

TEST_F(ServerTest, WritesMetrics) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (!server_) return;
  Client client(server_->port());
  EXPECT_EQ(client.post("/v1/embeddings", R"({"input":"a"})").status, 200);
  client.post("/v1/embeddings", R"({"input":"a","model":"no\"such\nmodel"})");
  const Answer answer = client.get("/metrics");
  EXPECT_EQ(answer.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(
      answer.body.find("http_requests_total{code=\"200\",handler=\"/v1/embeddings\",method=\"POST\",status=\"2xx\"} 1"),
      std::string::npos)
      << answer.body;
  EXPECT_NE(answer.body.find("code=\"404\",handler=\"/v1/embeddings\",method=\"POST\",status=\"4xx\"} 1"),
            std::string::npos);
  EXPECT_NE(answer.body.find("http_request_duration_seconds_count{handler=\"/v1/embeddings\",method=\"POST\"} 2"),
            std::string::npos);
  EXPECT_NE(answer.body.find("process_resident_memory_bytes "), std::string::npos);
  EXPECT_EQ(answer.body.find("such"), std::string::npos);  // no series from requests
}

TEST_F(ServerTest, LoadingAndDrainingAre503) {
  if (!has_golden("mpnet-model")) GTEST_SKIP() << "no golden models";
  serve::ServeOptions options;
  options.http.port = 0;
  options.models = {golden_model("mpnet-model", "embed")};
  serve::Server server(options);
  server.start();
  Client client(server.port());
  EXPECT_EQ(client.get("/health").status, 503);
  const Answer loading = client.post("/v1/embeddings", R"({"input":"a"})");
  EXPECT_EQ(loading.status, 503);
  EXPECT_TRUE(loading.headers.contains("retry-after"));
  server.load();
  EXPECT_EQ(Client(server.port()).get("/health").status, 200);
  server.drain();
  EXPECT_EQ(Client(server.port()).get("/health").status, 503);
  EXPECT_EQ(Client(server.port()).post("/v1/embeddings", R"({"input":"a"})").status, 503);
  EXPECT_TRUE(server.wait_until_idle(std::chrono::seconds(5)));
}

TEST_F(ServerTest, BodiesAreBounded) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (!server_) return;
  Client client(server_->port());
  client.send("POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n");
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_TRUE(json_of(answer)["error"]["message"].is_string());
}

// Who sends a body slowly holds up nobody; what is held of bodies is bounded by their bytes.
TEST_F(ServerTest, UnreadBodiesTakeNoPlaces) {
  serve::ServeOptions options;
  options.max_concurrent_requests = 1;
  ASSERT_NO_FATAL_FAILURE(start(std::move(options)));
  if (!server_) return;
  Client slow(server_->port());
  slow.send("POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  const auto active = [&](int64_t count) {
    for (int i = 0; i < 500 && server_->statistics().active != count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return server_->statistics().active == count;
  };
  ASSERT_TRUE(active(1));
  EXPECT_EQ(Client(server_->port()).post("/v1/embeddings", R"({"input":"a"})").status, 200);
  slow.close();
  ASSERT_TRUE(active(0));
}

TEST_F(ServerTest, NoMoreRequestsAreInWorkThanMayBe) {
  serve::ServeOptions options;
  options.max_concurrent_requests = 0;
  ASSERT_NO_FATAL_FAILURE(start(std::move(options)));
  if (!server_) return;
  Client client(server_->port());
  EXPECT_EQ(client.get("/health").status, 200);
  const Answer answer = client.post("/v1/embeddings", R"({"input":"a"})");
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
}

// Another site's page may send what needs no preflight, though not read the answer.
TEST_F(ServerTest, RefusesPagesOfOtherSitesOnLoopback) {
  const auto status = [&](const std::string& origin) {
    return Client(server_->port())
        .post("/v1/embeddings", R"({"input":"a"})", origin.empty() ? "" : "Origin: " + origin + "\r\n")
        .status;
  };
  ASSERT_NO_FATAL_FAILURE(start());
  if (!server_) return;
  for (const char* origin : {"", "http://localhost:3000", "https://127.0.0.1", "http://[::1]:80", "app://desktop"})
    EXPECT_EQ(status(origin), 200) << origin;
  for (const char* origin :
       {"http://evil.example", "null", "https://localhost.evil.example", "http://evil.example:8000"})
    EXPECT_EQ(status(origin), 403) << origin;
  serve::ServeOptions open;
  open.cors_allow_origin = "http://app.example";
  ASSERT_NO_FATAL_FAILURE(start(std::move(open)));
  EXPECT_EQ(status("http://app.example"), 200);
  EXPECT_EQ(status("http://evil.example"), 403);
  Client page(server_->port());
  page.send_request("OPTIONS", "/v1/embeddings", "",
                    "Origin: http://app.example\r\nAccess-Control-Request-Method: POST\r\n"
                    "Access-Control-Request-Headers: authorization, content-type, x-stainless-os\r\n");
  const Answer preflight = page.read_answer();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "http://app.example");
  EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "*, Authorization");
  EXPECT_NE(preflight.headers.at("access-control-allow-methods").find("POST"), std::string::npos);
  serve::ServeOptions keyed;
  keyed.api_keys = {"key"};
  ASSERT_NO_FATAL_FAILURE(start(std::move(keyed)));
  EXPECT_EQ(status("http://evil.example\r\nAuthorization: Bearer key"), 200);
}

TEST(Metrics, DroppedGaugesAreNotAsked) {
  serve::Metrics metrics;
  metrics.counter("a_total", "a").add(2);
  metrics.gauge("b", "b", {}, [] { return 7.0; });
  EXPECT_NE(metrics.text().find("\nb 7\n"), std::string::npos);
  metrics.drop_gauges();
  EXPECT_EQ(metrics.text().find("\nb 7\n"), std::string::npos);
  EXPECT_NE(metrics.text().find("\na_total 2\n"), std::string::npos);
}

// A board asks for the rate of what is declared as a counter.
TEST(Metrics, TotalsAreCounters) {
  serve::Metrics metrics;
  metrics.gauge("asked_total", "a", {}, [] { return 3.0; });
  metrics.gauge("asked", "a", {}, [] { return 3.0; });
  EXPECT_NE(metrics.text().find("# TYPE asked_total counter\nasked_total 3\n"), std::string::npos) << metrics.text();
  EXPECT_NE(metrics.text().find("# TYPE asked gauge\n"), std::string::npos);
}

TEST(ServerOptions, TwoModelsNeedTwoNames) {
  serve::ServeOptions options;
  EXPECT_THROW(serve::Server{options}, Error);
  options.models = {{"a", "x"}, {"a", "y"}};
  EXPECT_THROW(serve::Server{options}, Error);
}

}  // namespace
}  // namespace transom
