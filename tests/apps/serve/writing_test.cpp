// SPDX-License-Identifier: Apache-2.0
// Chats and completions, whole and as streams, over sockets.
#include <gtest/gtest.h>

#include <thread>

#include "apps/serve/golden_server.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::events_of;
using test::golden_model;
using test::json_of;

class Writing : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!test::has_golden("llama-lm")) return;
    serve::ServeOptions options{.models = {golden_model("llama-lm", "chat")}};
    options.log_request = [](std::string_view line) {
      const std::lock_guard lock(mutex_);
      log_.emplace_back(line);
    };
    server_ = test::start_server(options).release();
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    if (!server_) GTEST_SKIP() << "no golden models";
  }
  static Json post(const std::string& path, const Json& body, int status = 200) {
    Client client(server_->port());
    const Answer answer = client.post(path, dump_json(body));
    EXPECT_EQ(answer.status, status) << answer.body;
    return json_of(answer);
  }
  static std::vector<Json> stream(const std::string& path, Json body) {
    body["stream"] = true;
    Client client(server_->port());
    const Answer answer = client.post(path, dump_json(body));
    EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream; charset=utf-8") << answer.body;
    std::vector<std::string> events = events_of(answer.body);
    EXPECT_FALSE(events.empty());
    if (path.starts_with("/v1/")) {
      EXPECT_EQ(events.back(), "[DONE]");
      events.pop_back();
    }
    std::vector<Json> parsed;
    for (const std::string& event : events) parsed.push_back(parse_json(event, "event"));
    return parsed;
  }
  static Json hello(const Json& more = Json::object()) {
    Json body{{"model", "chat"},
              {"messages", {{{"role", "user"}, {"content", "hello"}}}},
              {"max_tokens", 12},
              {"temperature", 0}};
    body.update(more);
    return body;
  }
  static inline serve::Server* server_ = nullptr;
  static inline std::mutex mutex_;
  static inline std::vector<std::string> log_;
};

TEST_F(Writing, ChatHasOpenAisForm) {
  const Json answer = post("/v1/chat/completions", hello());
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_TRUE(answer["choices"][0]["message"]["content"].is_string());
  EXPECT_EQ(answer["usage"]["total_tokens"],
            answer["usage"]["prompt_tokens"].get<int64_t>() + answer["usage"]["completion_tokens"].get<int64_t>());
  EXPECT_TRUE(answer["choices"][0]["logprobs"].is_null());
}

TEST_F(Writing, StreamedTextIsTheText) {
  for (const Json& more : {Json::object(), Json{{"temperature", 1.2}, {"seed", 5}},
                           Json{{"n", 3}, {"temperature", 1}, {"seed", 7}}, Json{{"stop", {"a", "the"}}}}) {
    const Json whole = post("/v1/chat/completions", hello(more));
    Json asked = hello(more);
    asked["stream_options"] = {{"include_usage", true}};
    const std::vector<Json> chunks = stream("/v1/chat/completions", asked);
    std::map<size_t, std::string> texts;
    std::map<size_t, Json> reasons;
    for (const Json& chunk : chunks)
      for (const Json& choice : chunk["choices"]) {
        const auto index = choice["index"].get<size_t>();
        texts[index] += choice["delta"].value("content", std::string());
        if (!choice["finish_reason"].is_null()) reasons[index] = choice["finish_reason"];
        EXPECT_EQ(chunk["id"], chunks[0]["id"]);
      }
    EXPECT_EQ(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
    ASSERT_EQ(texts.size(), whole["choices"].size());
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(texts[i], whole["choices"][i]["message"]["content"]) << dump_json(more);
      EXPECT_EQ(reasons[i], whole["choices"][i]["finish_reason"]);
    }
  }
}

TEST_F(Writing, SeedsRepeat) {
  const Json body = hello({{"temperature", 1.5}, {"seed", 11}, {"max_tokens", 20}});
  EXPECT_EQ(post("/v1/chat/completions", body)["choices"], post("/v1/chat/completions", body)["choices"]);
}

TEST_F(Writing, CompletionsEchoWithLogprobs) {
  const Json ids = post("/tokenize", {{"prompt", "the cat sat"}})["tokens"];
  const Json answer = post("/v1/completions",
                           {{"prompt", ids}, {"max_tokens", 1}, {"temperature", 0}, {"logprobs", 1}, {"echo", true}});
  const Json logprobs = answer["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), ids.size() + 1);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  for (size_t i = 1; i <= ids.size(); ++i) {
    EXPECT_LE(logprobs["token_logprobs"][i].get<double>(), 0);
    EXPECT_GE(logprobs["top_logprobs"][i].size(), 1u);
  }
  // The last one was chosen as the likeliest.
  EXPECT_EQ(logprobs["top_logprobs"].back().size(), 1u);
  const Json prompt_only =
      post("/v1/completions", {{"prompt", ids}, {"max_tokens", 0}, {"logprobs", 1}, {"echo", true}});
  EXPECT_EQ(prompt_only["choices"][0]["logprobs"]["tokens"].size(), ids.size());
  EXPECT_EQ(prompt_only["choices"][0]["logprobs"]["token_logprobs"][1], logprobs["token_logprobs"][1]);
}

TEST_F(Writing, SeveralPromptsKeepTheirOrder) {
  const Json both =
      post("/v1/completions", {{"prompt", {"the cat", "a house"}}, {"max_tokens", 4}, {"temperature", 0}});
  ASSERT_EQ(both["choices"].size(), 2u);
  EXPECT_EQ(both["choices"][1]["index"], 1);
  EXPECT_EQ(
      both["choices"][1]["text"],
      post("/v1/completions", {{"prompt", "a house"}, {"max_tokens", 4}, {"temperature", 0}})["choices"][0]["text"]);
}

TEST_F(Writing, ImpossibleFieldsAre400) {
  post("/v1/chat/completions", hello({{"top_logprobs", 0}}));  // none are asked for, as vLLM reads it
  struct Case {
    Json more;
    const char* param;
  };
  for (const Case& each :
       {Case{{{"temperature", 3}}, "temperature"},
        Case{{{"temperature", "hot"}}, "temperature"},
        Case{{{"top_p", -1}}, "top_p"},
        Case{{{"n", 0}}, "n"},
        Case{{{"n", 1000}}, "n"},
        Case{{{"max_tokens", 0}}, "max_tokens"},
        Case{{{"max_tokens", 1.5}}, "max_tokens"},
        Case{{{"stop", {"a", 1}}}, "stop"},
        Case{{{"stop", std::string(1000, 'x')}}, "stop"},
        Case{{{"top_logprobs", 2}}, "top_logprobs"},
        Case{{{"logprobs", true}, {"top_logprobs", 21}}, "top_logprobs"},
        Case{{{"logit_bias", {{"x", 1}}}}, "logit_bias"},
        Case{{{"logit_bias", {{"1", 1000}}}}, "logit_bias"},
        Case{{{"logit_bias", {{"99999999999999999999", 1}}}}, "logit_bias"},
        Case{{{"messages", Json::array()}}, "messages"},
        Case{{{"messages", {{{"role", "king"}, {"content", "x"}}}}}, "messages[0].role"},
        Case{{{"messages",
               {{{"role", "user"},
                 {"content", {{{"type", "image_url"}, {"image_url", {{"url", "http://169.254.169.254/"}}}}}}}}}},
             "messages[0].content"},
        Case{{{"chat_template", "{{ 1 }}"}}, "chat_template"},
        Case{{{"chat_template_kwargs", {{"tokenize", true}}}}, "chat_template_kwargs"},
        Case{{{"response_format", {{"type", "xml"}}}}, "response_format.type"},
        Case{{{"response_format",
               {{"type", "json_schema"}, {"json_schema", {{"name", "a"}, {"schema", {{"type", 5}}}}}}}},
             "response_format.json_schema.schema"},
        Case{{{"structured_outputs", {{"regex", "("}}}}, "structured_outputs.regex"},
        Case{{{"structured_outputs", {{"regex", "a"}, {"choice", {"b"}}}}}, "structured_outputs.choice"},
        Case{{{"tools", {{{"type", "function"}}}}}, "tools[0]"},
        Case{{{"tool_choice", "required"}}, "tool_choice"},
        Case{{{"priority", -1}}, "priority"},
        Case{{{"truncate_prompt_tokens", 3}}, "truncate_prompt_tokens"},
        Case{{{"allowed_token_ids", {999999}}}, "allowed_token_ids"},
        Case{{{"allowed_token_ids", Json::array()}}, "allowed_token_ids"},
        Case{{{"bad_words", {" "}}}, "bad_words"},
        Case{{{"bad_words", {"a"}}, {"use_beam_search", true}, {"n", 2}}, "use_beam_search"},
        Case{{{"guided_json", "{\"type\":"}}, "guided_json"},
        Case{
            {{"tools",
              {{{"type", "function"},
                {"function",
                 {{"name", "f"}, {"parameters", {{"type", "object"}, {"properties", {{"a", {{"pattern", "("}}}}}}}}}}}},
             {"tool_choice", "required"}},
            "tools"}}) {
    const Json error = post("/v1/chat/completions", hello(each.more), 400)["error"];
    EXPECT_EQ(error["param"], each.param) << dump_json(each.more) << dump_json(error);
  }
  const Json error = post("/v1/chat/completions", hello({{"max_tokens", 100000}}), 400)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_NE(error["message"].get<std::string>().find("128"), std::string::npos);
  post("/v1/completions", {{"prompt", ""}, {"add_special_tokens", false}}, 400);
  post("/v1/completions", {{"prompt", {1, 999999}}}, 400);
  post("/v1/embeddings", {{"model", "chat"}, {"input", "a"}}, 400);
}

TEST_F(Writing, JsonSchemaIsKept) {
  const Json schema = Json::parse(
      R"({"type":"object","properties":{"ok":{"type":"boolean"},"color":{"enum":["red","blue"]},"n":{"type":"integer","minimum":1,"maximum":5}},
                                      "required":["ok","color","n"],"additionalProperties":false})");
  for (int seed = 0; seed < 5; ++seed) {
    const Json answer = post(
        "/v1/chat/completions",
        hello({{"max_tokens", 80},
               {"temperature", 1.5},
               {"seed", seed},
               {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "a"}, {"schema", schema}}}}}}));
    ASSERT_EQ(answer["choices"][0]["finish_reason"], "stop") << dump_json(answer);
    const Json value = Json::parse(answer["choices"][0]["message"]["content"].get<std::string>());
    EXPECT_TRUE(value["ok"].is_boolean());
    EXPECT_TRUE(value["color"] == "red" || value["color"] == "blue");
    EXPECT_GE(value["n"], 1);
    EXPECT_LE(value["n"], 5);
  }
  const Json chosen = post("/v1/chat/completions", hello({{"structured_outputs", {{"choice", {"maybe", "never"}}}}}));
  const Json text = chosen["choices"][0]["message"]["content"];
  EXPECT_TRUE(text == "maybe" || text == "never") << dump_json(chosen);
  const Json regex = post("/v1/completions", {{"prompt", "x"}, {"structured_outputs", {{"regex", "[ab]{4}"}}}});
  EXPECT_EQ(regex["choices"][0]["text"].get<std::string>().size(), 4u);
  const Json gbnf =
      post("/v1/completions", {{"prompt", "x"}, {"structured_outputs", {{"grammar", "root ::= \"yes\" | \"no\""}}}});
  EXPECT_TRUE(gbnf["choices"][0]["text"] == "yes" || gbnf["choices"][0]["text"] == "no") << dump_json(gbnf);
}

TEST_F(Writing, RequiredToolsAreCalled) {
  const Json tools = Json::parse(
      R"([{"type":"function","function":{"name":"set","parameters":{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"],"additionalProperties":false}}},
                                     {"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{},"additionalProperties":false}}}])");
  const Json body =
      hello({{"tools", tools}, {"tool_choice", "required"}, {"parallel_tool_calls", false}, {"max_tokens", 60}});
  const Json answer = post("/v1/chat/completions", body);
  const Json calls = answer["choices"][0]["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 1u) << dump_json(answer);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_TRUE(calls[0]["function"]["name"] == "set" || calls[0]["function"]["name"] == "now");
  EXPECT_TRUE(Json::parse(calls[0]["function"]["arguments"].get<std::string>()).is_object());
  Json named = body;
  named["tool_choice"] = {{"type", "function"}, {"function", {{"name", "set"}}}};
  const Json set = post("/v1/chat/completions", named)["choices"][0]["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(set["name"], "set");
  EXPECT_TRUE(Json::parse(set["arguments"].get<std::string>())["on"].is_boolean());
  std::string name, arguments;
  for (const Json& chunk : stream("/v1/chat/completions", named))
    for (const Json& choice : chunk["choices"])
      if (choice["delta"].contains("tool_calls")) {
        name += choice["delta"]["tool_calls"][0]["function"].value("name", "");
        arguments += choice["delta"]["tool_calls"][0]["function"].value("arguments", "");
      }
  EXPECT_EQ(name, "set");
  EXPECT_EQ(arguments, set["arguments"]);
}

// As OpenAI answers: what there is of the call, whose arguments do not end, and not the text of a list of calls.
TEST_F(Writing, ACallThatALimitCutsIsACall) {
  const Json tools = Json::parse(
      R"([{"type":"function","function":{"name":"set_the_lamp","parameters":{"type":"object","properties":{"name":{"type":"string","minLength":80}},"required":["name"],"additionalProperties":false}}}])");
  const Json named{{"type", "function"}, {"function", {{"name", "set_the_lamp"}}}};
  for (const Json& choice : {Json("required"), named}) {
    for (const int limit : {1, 40, 60}) {
      const Json body = hello({{"tools", tools}, {"tool_choice", choice}, {"max_tokens", limit}});
      const Json answer = post("/v1/chat/completions", body)["choices"][0];
      EXPECT_EQ(answer["finish_reason"], "length");
      const Json message = answer["message"];
      if (limit == 1 && choice == "required") {
        EXPECT_EQ(message["content"], "");  // no name yet
        EXPECT_FALSE(message.contains("tool_calls"));
      } else {
        EXPECT_TRUE(message["content"].is_null()) << dump_json(message);
        ASSERT_EQ(message["tool_calls"].size(), 1u);
      }
      std::string name, arguments, finish;
      size_t pieces = 0;
      for (const Json& chunk : stream("/v1/chat/completions", body))
        for (const Json& each : chunk["choices"]) {
          if (each["finish_reason"].is_string()) finish = each["finish_reason"];
          EXPECT_EQ(each["delta"].value("content", ""), "");
          if (!each["delta"].contains("tool_calls")) continue;
          const Json& function = each["delta"]["tool_calls"][0]["function"];
          name += function.value("name", "");
          pieces += !function.value("arguments", "").empty();
          arguments += function.value("arguments", "");
        }
      EXPECT_EQ(finish, "length");
      if (!message.contains("tool_calls")) continue;
      EXPECT_EQ(name, "set_the_lamp");
      EXPECT_EQ(arguments, message["tool_calls"][0]["function"]["arguments"]);
      EXPECT_GT(pieces, limit == 60 ? 5u : 0u);  // as they are written
    }
  }
}

TEST_F(Writing, TextGenerationInferencesForm) {
  const Json body{{"inputs", "the cat"}, {"parameters", {{"max_new_tokens", 6}, {"details", true}}}};
  const Json answer = post("/generate", body);
  EXPECT_EQ(answer["details"]["generated_tokens"], 6);
  EXPECT_EQ(answer["details"]["finish_reason"], "length");
  EXPECT_EQ(answer["details"]["tokens"].size(), 6u);
  EXPECT_TRUE(answer["details"]["prefill"].empty());
  const Json read =
      post("/generate",
           {{"inputs", "the cat"},
            {"parameters",
             {{"max_new_tokens", 1}, {"details", true}, {"decoder_input_details", true}}}})["details"]["prefill"];
  const Json ids = post("/tokenize", {{"prompt", "the cat"}})["tokens"];
  ASSERT_EQ(read.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(read[i]["id"], ids[i]);
  EXPECT_TRUE(read[0]["logprob"].is_null());  // nothing comes before it
  EXPECT_LT(read[1]["logprob"], 0);
  const std::vector<Json> events = stream("/generate_stream", body);
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0]["index"], 1);
  EXPECT_TRUE(events[0]["generated_text"].is_null());
  EXPECT_EQ(events.back()["generated_text"], answer["generated_text"]);
  EXPECT_EQ(post("/", body)[0]["generated_text"], answer["generated_text"]);
  EXPECT_EQ(post("/models/chat", body)[0]["generated_text"], answer["generated_text"]);
  EXPECT_EQ(post("/generate", {{"inputs", 5}}, 400)["error_type"], "validation");
  post("/generate", {{"inputs", "a"}, {"parameters", {{"adapter_id", "none"}}}}, 400);
}

// Many at once: the answer is the one that is given alone.
TEST_F(Writing, CompanyChangesNothing) {
  std::vector<Json> bodies;
  std::vector<Json> alone;
  for (int i = 0; i < 8; ++i) {
    bodies.push_back(hello({{"max_tokens", 6 + i}, {"temperature", i % 2}, {"seed", i}, {"logprobs", true}}));
    alone.push_back(post("/v1/chat/completions", bodies.back())["choices"]);
  }
  std::vector<std::thread> clients;
  std::atomic<int> wrong{0};
  for (size_t c = 0; c < 8; ++c)
    clients.emplace_back([&, c] {
      for (size_t i = 0; i < 4; ++i) {
        const size_t which = (c * 3 + i) % bodies.size();
        if (post("/v1/chat/completions", bodies[which])["choices"] != alone[which]) ++wrong;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Writing, AClientThatLeavesIsDropped) {
  for (const bool streams : {true, false}) {
    {
      Client client(server_->port());
      client.send_request("POST", "/v1/chat/completions",
                          dump_json(hello({{"max_tokens", 90}, {"ignore_eos", true}, {"stream", streams}})));
      if (streams) client.receive();
    }
    for (int i = 0; i < 500 && server_->statistics().running + server_->statistics().waiting > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(server_->statistics().running, 0);
    EXPECT_EQ(server_->statistics().waiting, 0);
  }
}

TEST_F(Writing, TheLogHasNoPrompts) {
  post("/v1/chat/completions", hello({{"messages", {{{"role", "user"}, {"content", "secret words"}}}}}));
  for (int i = 0; i < 100; ++i) {
    {
      const std::lock_guard lock(mutex_);
      if (!log_.empty()) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::lock_guard lock(mutex_);
  ASSERT_FALSE(log_.empty());
  for (const std::string& line : log_) {
    EXPECT_EQ(line.find("secret"), std::string::npos);
    EXPECT_TRUE(Json::parse(line).contains("request_id"));
  }
}

// The first prompts write already when more wait than may: those of one request are taken together.
TEST(WritingQueue, TakesAllPromptsOfARequest) {
  if (!test::has_golden("llama-lm")) GTEST_SKIP() << "no golden models";
  serve::ServeOptions options{.models = {golden_model("llama-lm", "chat")}};
  options.max_waiting = 2;
  options.max_sequences = 2;
  const auto server = test::start_server(options);
  const Json body{{"prompt", std::vector<std::string>(64, "a")}, {"max_tokens", 2}};
  for (int i = 0; i < 20; ++i) {
    const Answer answer = Client(server->port()).post("/v1/completions", dump_json(body));
    EXPECT_EQ(answer.status, 200) << answer.body;
  }
  EXPECT_TRUE(server->wait_until_idle(std::chrono::seconds(10)));
}

// One text at a time, 256 of one client wait: who may go first is answered before them.
TEST(WritingQueue, PriorityGoesFirstWhereTheServerAllowsIt) {
  if (!test::has_golden("llama-lm")) GTEST_SKIP() << "no golden models";
  serve::ServeOptions options{.models = {golden_model("llama-lm", "chat")}};
  options.max_sequences = 1;
  options.max_waiting = 512;
  options.by_priority = true;
  const auto server = test::start_server(options);
  std::atomic<bool> all_done{false};
  std::thread many([&] {
    const Json body{{"prompt", std::vector<std::string>(256, "a")}, {"max_tokens", 60}, {"ignore_eos", true}};
    EXPECT_EQ(Client(server->port()).post("/v1/completions", dump_json(body)).status, 200);
    all_done = true;
  });
  while (server->statistics().waiting < 200 && !all_done) std::this_thread::yield();
  const Answer urgent =
      Client(server->port()).post("/v1/completions", R"({"prompt":"a","max_tokens":2,"priority":-1})");
  EXPECT_FALSE(all_done);
  EXPECT_EQ(urgent.status, 200) << urgent.body;
  many.join();
}

// Each accepted request is answered whole, though the server ends.
TEST(WritingDrain, StreamsEndWhole) {
  if (!test::has_golden("llama-lm")) GTEST_SKIP() << "no golden models";
  const auto server = test::start_server({.models = {golden_model("llama-lm", "chat")}});
  Client client(server->port());
  client.send_request("POST", "/v1/completions",
                      R"({"prompt":"the cat","max_tokens":100,"ignore_eos":true,"stream":true,"temperature":0})");
  ASSERT_TRUE(client.receive());
  server->drain();
  EXPECT_EQ(Client(server->port()).post("/v1/completions", R"({"prompt":"a"})").status, 503);
  const Answer answer = client.read_answer();
  EXPECT_EQ(events_of(answer.body).back(), "[DONE]");
  EXPECT_TRUE(server->wait_until_idle(std::chrono::seconds(10)));
}

}  // namespace
}  // namespace transom
