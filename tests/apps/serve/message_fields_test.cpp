// SPDX-License-Identifier: Apache-2.0
// What messages, their parts and tools have beside what is read of them is said to have no effect; answers of
// /v1/responses repeat what was asked for.
#include <gtest/gtest.h>

#include <mutex>

#include "apps/serve/golden_server.h"
#include "transom/log.h"

namespace transom {
namespace {

using test::Client;
using test::json_of;

class MessageFields : public testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](LogLevel, std::string_view text) {
      const std::lock_guard lock(mutex_);
      log_ += std::string(text) + "\n";
    });
    if (test::has_golden("llama-lm")) server_ = test::start_server({.models = {test::golden_model("llama-lm", "lm")}});
    if (!server_) GTEST_SKIP() << "no golden models";
  }
  void TearDown() override {
    server_.reset();
    set_log_sink({});
  }
  // What the log says of a request that is answered.
  std::string log_of(const std::string& path, const Json& body) {
    {
      const std::lock_guard lock(mutex_);
      log_.clear();
    }
    const test::Answer answer = Client(server_->port()).post(path, dump_json(body));
    EXPECT_EQ(answer.status, 200) << answer.body;
    const std::lock_guard lock(mutex_);
    return log_;
  }
  std::string log_of_chat(const Json& message, const Json& tools = Json::array()) {
    return log_of("/v1/chat/completions",
                  {{"model", "lm"}, {"messages", {message}}, {"max_tokens", 1}, {"tools", tools}});
  }
  std::mutex mutex_;
  std::string log_;
  std::unique_ptr<serve::Server> server_;
};

TEST_F(MessageFields, OthersAreSaidToHaveNoEffect) {
  EXPECT_NE(log_of_chat({{"role", "user"}, {"content", "a"}, {"weight_of_turn", 3}})
                .find("'weight_of_turn' of a message has no effect"),
            std::string::npos);
  const Json part{{"type", "text"}, {"text", "a"}, {"most_pixels", 100}};
  EXPECT_NE(log_of_chat({{"role", "user"}, {"content", {part}}}).find("'most_pixels' of a part of a message"),
            std::string::npos);
  const Json tool{{"type", "function"}, {"function", {{"name", "f"}, {"strict", true}}}};
  EXPECT_NE(log_of_chat({{"role", "user"}, {"content", "a"}}, Json::array({tool})).find("'strict'"), std::string::npos);
}

// Items of /v1/responses; what this server's own answers have passes in silence.
TEST_F(MessageFields, ThoseOfItemsToo) {
  const auto log_of_items = [&](const Json& more) {
    Json message{{"type", "message"}, {"role", "user"}, {"content", "a"}, {"id", "msg_1"}, {"status", "completed"}};
    message.update(more);
    return log_of("/v1/responses", {{"model", "lm"}, {"input", {message}}, {"max_output_tokens", 1}});
  };
  EXPECT_EQ(log_of_items(Json::object()).find("of the input has no effect"), std::string::npos);
  EXPECT_NE(log_of_items({{"weight_of_item", 3}}).find("'weight_of_item' of a message of the input has no effect"),
            std::string::npos);
}

TEST_F(MessageFields, WhatAnswersBringPassesWithoutAWord) {
  const std::string log = log_of_chat({{"role", "assistant"},
                                       {"content", {{{"type", "text"}, {"text", "a"}, {"annotations", Json::array()}}}},
                                       {"refusal", nullptr},
                                       {"audio", nullptr},
                                       {"annotations", Json::array()},
                                       {"reasoning_content", "b"}});
  EXPECT_EQ(log.find("no effect"), std::string::npos) << log;
}

TEST_F(MessageFields, ResponsesRepeatWhatWasAsked) {
  Client client(server_->port());
  Json body{{"model", "lm"}, {"input", "a"}, {"max_output_tokens", 2}, {"store", true}};
  const Json plain = json_of(client.post("/v1/responses", dump_json(body)));
  EXPECT_TRUE(plain["instructions"].is_null());
  EXPECT_TRUE(plain["temperature"].is_null());
  EXPECT_EQ(plain["max_output_tokens"], 2);
  EXPECT_EQ(plain["store"], false);  // nothing is kept
  EXPECT_EQ(plain["text"]["format"]["type"], "text");
  const Json text{{"format", {{"type", "json_schema"}, {"name", "n"}, {"schema", {{"type", "integer"}}}}}};
  body.update({{"instructions", "be brief"}, {"temperature", 0.5}, {"top_p", 0.9}, {"text", text}});
  const Json full = json_of(client.post("/v1/responses", dump_json(body)));
  EXPECT_EQ(full["instructions"], "be brief");
  EXPECT_EQ(full["temperature"], 0.5);
  EXPECT_EQ(full["top_p"], 0.9);
  EXPECT_EQ(full["text"], text);
  body["stream"] = true;
  // Of the events created, in progress and at the end.
  const std::string events = client.post("/v1/responses", dump_json(body)).body, asked = R"("instructions":"be brief")";
  size_t times = 0;
  for (size_t at = events.find(asked); at != events.npos; at = events.find(asked, at + 1)) ++times;
  EXPECT_EQ(times, 3u) << events;
}

}  // namespace
}  // namespace transom
