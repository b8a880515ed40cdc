// SPDX-License-Identifier: Apache-2.0
// What clients get of texts that models say: special tokens, characters of several tokens, calls in every interface,
// whole and as streams.
#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"
#include "support/scripted_model.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

const std::vector<std::string> kSpecial{"</s>",
                                        "[TOOL_CALLS]",
                                        "[ARGS]",
                                        "<|python_tag|>",
                                        "<|tool_call_start|>",
                                        "<|tool_call_end|>",
                                        "<|tool_calls_section_begin|>",
                                        "<|tool_calls_section_end|>",
                                        "<|tool_call_begin|>",
                                        "<|tool_call_argument_begin|>"};
const std::vector<std::string> kPieces{"<tool_call>",
                                       "</tool_call>",
                                       "\"name\": ",
                                       "\"arguments\": ",
                                       "\"parameters\": ",
                                       "get_weather",
                                       "get_time",
                                       "{\"city\": \"Paris\"}",
                                       "{\"zone\": \"UTC\"}",
                                       "12345678901234567890123",
                                       "plain",
                                       "quick",
                                       "brown",
                                       "not_a_tool"};
const std::map<std::string, std::string> kTexts{
    {"plain", "plain"},
    {"empty", ""},
    {"emoji", "Hi 😀é👍🏽 !"},
    {"stop", "a quick brown quick b"},
    {"mistral", "Ok.[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}[TOOL_CALLS]get_time[ARGS]{\"zone\": \"UTC\"}"},
    {"llama", "See <|python_tag|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}"},
    {"kimi",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": "
     "\"Paris\"}<|tool_call_end|><|tool_calls_section_end|>"},
    {"lfm2", "<|tool_call_start|>[get_weather(city=\"Paris\")]<|tool_call_end|>Wait."},
    {"hermes",
     "<tool_call>{\"name\": \"get_time\", \"arguments\": {\"zone\": \"UTC\"}}</tool_call><tool_call>{\"name\": "
     "\"not_a_tool\", \"arguments\": {}}</tool_call>"},
    {"numbers", "<tool_call>{\"name\": \"get_time\", \"arguments\": {\"zone\": 12345678901234567890123}}</tool_call>"},
};

class ScriptedAnswers : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = new test::ScriptedModel(kSpecial, kPieces, kTexts);
    server_ = test::start_server({.models = {{"script", model_->folder()}}}).release();
  }
  static void TearDownTestSuite() {
    delete server_;
    delete model_;
  }
  static Answer ask(const std::string& path, const Json& body) {
    return Client(server_->port()).post(path, dump_json(body));
  }
  static Json post(const std::string& path, const Json& body, int status = 200) {
    const Answer answer = ask(path, body);
    EXPECT_EQ(answer.status, status) << answer.body;
    return json_of(answer);
  }
  static std::vector<Json> stream(const std::string& path, Json body) {
    body["stream"] = true;
    std::vector<Json> events;
    for (const std::string& event : test::events_of(ask(path, body).body))
      if (event != "[DONE]") events.push_back(parse_json(event, "event"));
    return events;
  }
  static Json tools() {
    Json list = Json::array();
    for (const char* name : {"get_weather", "get_time"})
      list.push_back({{"type", "function"}, {"function", {{"name", name}}}});
    return list;
  }
  static Json chat_of(const std::string& text, const Json& more = Json::object()) {
    Json body{
        {"messages", {{{"role", "user"}, {"content", model_->prompt(text)}}}}, {"temperature", 0}, {"max_tokens", 200}};
    body.update(more);
    return body;
  }
  // {content, [[name, arguments] ...], finish_reason} of a chat, and of its stream, which is the same.
  static Json chat(const std::string& text, const Json& more = Json::object()) {
    const Json body = chat_of(text, more);
    const Json choice = post("/v1/chat/completions", body)["choices"][0];
    Json whole{choice["message"]["content"], Json::array(), choice["finish_reason"]};
    for (const Json& call : choice["message"].value("tool_calls", Json::array()))
      whole[1].push_back({call["function"]["name"], call["function"]["arguments"]});
    Json streamed{"", Json::array(), nullptr};
    for (const Json& event : stream("/v1/chat/completions", body)) {
      const Json& each = event["choices"][0];
      const Json& delta = each["delta"];
      streamed[0] = streamed[0].get<std::string>() + delta.value("content", std::string());
      for (const Json& call : delta.value("tool_calls", Json::array())) {
        if (call.contains("id")) streamed[1].push_back({call["function"]["name"], ""});
        Json& arguments = streamed[1][call["index"].get<size_t>()][1];
        arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
      }
      if (!each["finish_reason"].is_null()) streamed[2] = each["finish_reason"];
    }
    if (whole[0].is_null()) whole[0] = "";
    EXPECT_EQ(streamed, whole) << text;
    return whole;
  }
  static inline test::ScriptedModel* model_ = nullptr;
  static inline serve::Server* server_ = nullptr;
};

const Json kWeather{"get_weather", R"({"city":"Paris"})"}, kTime{"get_time", R"({"zone":"UTC"})"};

TEST_F(ScriptedAnswers, CallsWhoseMarksAreSpecialTokens) {
  const Json with{{"tools", tools()}};
  EXPECT_EQ(chat("mistral", with), (Json{"Ok.", Json::array({kWeather, kTime}), "tool_calls"}));
  EXPECT_EQ(chat("llama", with), (Json{"See", Json::array({kWeather}), "tool_calls"}));
  EXPECT_EQ(chat("kimi", with), (Json{"", Json::array({kWeather}), "tool_calls"}));
  EXPECT_EQ(chat("lfm2", with), (Json{"Wait.", Json::array({kWeather}), "tool_calls"}));
  // Without tools they are text, of which special tokens are not shown.
  EXPECT_EQ(chat("lfm2")[0], "[get_weather(city=\"Paris\")]Wait.");
  EXPECT_EQ(chat("lfm2", {{"tools", tools()}, {"tool_choice", "none"}})[0], "[get_weather(city=\"Paris\")]Wait.");
}

TEST_F(ScriptedAnswers, CallsInOtherInterfaces) {
  Json tools_of_response = Json::array();
  for (const char* name : {"get_weather", "get_time"})
    tools_of_response.push_back({{"type", "function"}, {"name", name}});
  for (const char* text : {"mistral", "llama", "kimi", "lfm2"}) {
    const Json expected = chat(text, {{"tools", tools()}});
    Json body{{"input", model_->prompt(text)}, {"tools", tools_of_response}, {"temperature", 0}};
    const Json output = post("/v1/responses", body)["output"];
    Json found{"", Json::array()};
    for (const Json& item : output) {
      if (item["type"] == "message") found[0] = item["content"][0]["text"];
      else found[1].push_back({item["name"], item["arguments"]});
    }
    EXPECT_EQ(found, (Json{expected[0], expected[1]})) << text;
    const Json ollama{{"model", "script"},
                      {"messages", {{{"role", "user"}, {"content", model_->prompt(text)}}}},
                      {"tools", tools()},
                      {"options", {{"temperature", 0}}}};
    Json lines{"", Json::array()}, one = ollama;
    const std::string all = ask("/api/chat", ollama).body;
    for (size_t at = 0; at < all.size();) {
      const size_t end = all.find('\n', at);
      const Json message = parse_json(all.substr(at, end - at), "line")["message"];
      lines[0] = lines[0].get<std::string>() + message["content"].get<std::string>();
      for (const Json& call : message.value("tool_calls", Json::array()))
        lines[1].push_back({call["function"]["name"], call["function"]["arguments"].dump()});
      at = end + 1;
    }
    EXPECT_EQ(lines, (Json{expected[0], expected[1]})) << text;
    one["stream"] = false;
    const Json message = post("/api/chat", one)["message"];
    EXPECT_EQ(message["content"], expected[0]);
    EXPECT_EQ(message["tool_calls"].size(), expected[1].size());
  }
}

TEST_F(ScriptedAnswers, OneCallWhereSeveralAreNotWanted) {
  EXPECT_EQ(chat("mistral", {{"tools", tools()}, {"parallel_tool_calls", false}})[1], Json::array({kWeather}));
  const Json item{{"type", "function"}, {"name", "get_weather"}};
  const Json output = post("/v1/responses", {{"input", model_->prompt("mistral")},
                                             {"tools", {item, {{"type", "function"}, {"name", "get_time"}}}},
                                             {"parallel_tool_calls", false}})["output"];
  ASSERT_EQ(output.size(), 2u) << output;  // the message and the call
  EXPECT_EQ(output[1]["name"], "get_weather");
}

TEST_F(ScriptedAnswers, ABadCallTakesNoOtherWithIt) {
  EXPECT_EQ(
      chat("hermes", {{"tools", tools()}}),
      (Json{R"(<tool_call>{"name": "not_a_tool", "arguments": {}}</tool_call>)", Json::array({kTime}), "tool_calls"}));
}

TEST_F(ScriptedAnswers, ArgumentsHaveTheDigitsOfTheModel) {
  EXPECT_EQ(chat("numbers", {{"tools", tools()}})[1][0][1], R"({"zone":12345678901234567890123})");
  const Json body{{"model", "script"},
                  {"messages", {{{"role", "user"}, {"content", model_->prompt("numbers")}}}},
                  {"tools", tools()},
                  {"options", {{"temperature", 0}}}};
  for (const bool stream : {false, true}) {
    Json asked = body;
    asked["stream"] = stream;
    EXPECT_NE(ask("/api/chat", asked).body.find(R"("arguments":{"zone":12345678901234567890123})"), std::string::npos);
  }
}

TEST_F(ScriptedAnswers, SpecialTokensAreShownWhereTheyAreAskedFor) {
  const Json open{{"skip_special_tokens", false}};
  EXPECT_EQ(chat("mistral", open)[0], kTexts.at("mistral"));
  EXPECT_EQ(chat("mistral", {{"skip_special_tokens", false}, {"tools", tools()}}),
            (Json{"Ok.", Json::array({kWeather, kTime}), "tool_calls"}));
  const Json prompt{
      {"prompt", model_->prompt("mistral")}, {"temperature", 0}, {"max_tokens", 200}, {"skip_special_tokens", false}};
  EXPECT_EQ(post("/v1/completions", prompt)["choices"][0]["text"], kTexts.at("mistral"));
  std::string text;
  for (const Json& event : stream("/v1/completions", prompt)) text += event["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(text, kTexts.at("mistral"));
  EXPECT_EQ(
      post("/generate", {{"inputs", model_->prompt("mistral")},
                         {"parameters", {{"max_new_tokens", 200}, {"skip_special_tokens", false}}}})["generated_text"],
      kTexts.at("mistral"));
}

TEST_F(ScriptedAnswers, SpecialTokensStopTexts) {
  for (const bool skip : {true, false}) {
    const Json answer = chat("mistral", {{"stop", {"[ARGS]"}}, {"skip_special_tokens", skip}});
    EXPECT_EQ(answer, (Json{skip ? "Ok.get_weather" : "Ok.[TOOL_CALLS]get_weather", Json::array(), "stop"}));
  }
  const Json answer =
      post("/generate", {{"inputs", model_->prompt("mistral")},
                         {"parameters", {{"stop", {"[ARGS]"}}, {"details", true}, {"max_new_tokens", 200}}}});
  EXPECT_EQ(answer["details"]["finish_reason"], "stop_sequence");
  EXPECT_EQ(answer["generated_text"], "Ok.get_weather");
}

TEST_F(ScriptedAnswers, NothingEndsBeforeMinTokens) {
  EXPECT_EQ(chat("stop", {{"stop", {"quick"}}})[0], "a ");
  EXPECT_EQ(chat("stop", {{"stop", {"quick"}}, {"min_tokens", 2}})[0], "a ");
  EXPECT_EQ(chat("stop", {{"stop", {"quick"}}, {"min_tokens", 3}})[0], "a quick brown ");
  const Json usage = post("/v1/chat/completions", chat_of("stop", {{"stop", {"quick"}}, {"min_tokens", 3}}))["usage"];
  EXPECT_EQ(usage["completion_tokens"], 7);
  // Ends by tokens wait as well: those of the model, and those of the request beside or without them.
  for (const Json& more :
       {Json::object(), Json{{"ignore_eos", true}, {"stop_token_ids", {256}}}, Json{{"stop_token_ids", {257}}}}) {
    Json body = chat_of("plain", more);
    body["min_tokens"] = 4, body["max_tokens"] = 6;
    EXPECT_GE(post("/v1/chat/completions", body)["usage"]["completion_tokens"], 4) << body;
  }
}

// text-generation-inference: the texts of the tokens that are not special are the text.
TEST_F(ScriptedAnswers, TokensOfStreamsAreTheText) {
  for (const auto& [name, text] : kTexts)
    for (const Json& more : {Json::object(), Json{{"stop", {"quick"}}}, Json{{"max_new_tokens", 5}},
                             Json{{"skip_special_tokens", false}}}) {
      Json body{{"inputs", model_->prompt(name)}, {"parameters", {{"max_new_tokens", 200}, {"details", true}}}};
      body["parameters"].update(more);
      const Json whole = post("/generate", body);
      std::string joined;
      Json tokens = Json::array();
      const std::vector<Json> events = stream("/generate_stream", body);
      for (const Json& event : events) {
        tokens.push_back(event["token"]);
        EXPECT_EQ(event["index"], tokens.size());
        if (!event["token"]["special"]) joined += event["token"]["text"].get<std::string>();
      }
      EXPECT_EQ(joined, whole["generated_text"]) << name << more;
      EXPECT_EQ(events.back()["generated_text"], joined);
      EXPECT_EQ(tokens, whole["details"]["tokens"]);
      EXPECT_EQ(events.back()["details"]["generated_tokens"], tokens.size());
      EXPECT_EQ(whole["details"]["generated_tokens"], tokens.size());
      if (whole["details"]["finish_reason"] != "eos_token") continue;
      EXPECT_EQ(tokens.back()["special"], true);
      EXPECT_EQ(tokens.back()["text"], "</s>");
      EXPECT_LE(tokens.back()["logprob"], 0);
    }
  EXPECT_EQ(post("/generate",
                 {{"inputs", model_->prompt("emoji")}, {"parameters", {{"max_new_tokens", 200}}}})["generated_text"],
            kTexts.at("emoji"));
}

// A call that a limit has cut, or that is no JSON, goes back to the model.
TEST_F(ScriptedAnswers, AnyTextOfArgumentsGoesBack) {
  for (const char* arguments : {"{\"city\": \"P", "", "null", "5", "[1]", "Paris"}) {
    Json body = chat_of("plain");
    body["messages"].push_back(
        {{"role", "assistant"},
         {"content", nullptr},
         {"tool_calls",
          {{{"id", "a"}, {"type", "function"}, {"function", {{"name", "get_time"}, {"arguments", arguments}}}}}}});
    body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "a"}, {"content", "bad"}});
    EXPECT_EQ(post("/v1/chat/completions", body)["choices"][0]["message"]["content"], "plain") << arguments;
    post("/v1/responses",
         {{"input",
           {{{"role", "user"}, {"content", model_->prompt("plain")}},
            {{"type", "function_call"}, {"call_id", "a"}, {"name", "get_time"}, {"arguments", arguments}},
            {{"type", "function_call_output"}, {"call_id", "a"}, {"output", "bad"}}}}});
  }
}

TEST(ScriptedHistories, TemplatesGetTextsOrNames) {
  const auto answer = [](const std::string& chat_template, const std::string& arguments) {
    // The prompt of the text is what the template makes of the arguments.
    const test::ScriptedModel model({"</s>"}, {}, {{"text", "yes"}}, chat_template);
    const auto server = test::start_server({.models = {{"m", model.folder()}}});
    const Json body{
        {"messages",
         {{{"role", "assistant"},
           {"content", model.prompt("text")},
           {"tool_calls",
            {{{"id", "a"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}}}}},
          {{"role", "user"}, {"content", ""}}}},
        {"temperature", 0},
        {"max_tokens", 9}};
    return json_of(
        Client(server->port()).post("/v1/chat/completions", dump_json(body)))["choices"][0]["message"]["content"];
  };
  const std::string call = "messages[0].tool_calls[0].function.arguments", prompt = "messages[0].content";
  EXPECT_EQ(answer("{% if " + call + " == '{\"a\": 1' %}{{ " + prompt + " }}{% endif %}", "{\"a\": 1"), "yes");
  // Many templates go through the names of the arguments.
  EXPECT_EQ(answer("{% for name, value in " + call + ".items() %}{% if value == '{\"a\": 1' %}{{ " + prompt +
                       " }}{% endif %}{% endfor %}",
                   "{\"a\": 1"),
            "yes");
}

TEST(ScriptedHistories, NumbersKeepTheirDigits) {
  const std::string arguments =
      R"({"a": 12345678901234567890123, "b": [-98765432109876543210], "c": "12345678901234567890123 \\", "d": 18446744073709551615, "e": 1.5})";
  const std::string chat_template =
      "{% if messages|length == 1 %}{{ messages[0].content }}{% else %}{{ "
      "messages[0].tool_calls[0].function.arguments|tojson }}{% endif %}";
  const test::ScriptedModel model({"</s>"}, {}, {{"text", "yes"}}, chat_template);
  const auto server = test::start_server({.models = {{"m", model.folder()}}});
  const Json body{{"messages",
                   {{{"role", "assistant"},
                     {"content", ""},
                     {"tool_calls",
                      {{{"id", "a"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}}}}},
                    {{"role", "user"}, {"content", ""}}}}};
  const Json ids = json_of(Client(server->port()).post("/tokenize", dump_json(body)))["tokens"];
  EXPECT_EQ(json_of(Client(server->port()).post("/detokenize", dump_json(Json{{"tokens", ids}})))["prompt"], arguments);
}

// Ids of the server go back, and ids of others.
TEST(ScriptedHistories, IdsOfCallsHaveTheFormOfMistralsTemplates) {
  const std::string chat_template =
      "{%- for message in messages %}{%- for call in message.tool_calls or [] %}{%- if call.id|length != 9 %}"
      "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{%- endif %}{%- endfor %}"
      "{%- endfor %}{{ messages[0].content }}";
  const test::ScriptedModel model({"</s>", "[TOOL_CALLS]"}, {},
                                  {{"call", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]"}}, chat_template);
  const auto server = test::start_server({.models = {{"m", model.folder()}}});
  const auto post = [&](const Json& body) {
    const Answer answer = Client(server->port()).post("/v1/chat/completions", dump_json(body));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json_of(answer)["choices"][0]["message"];
  };
  Json body{{"messages", {{{"role", "user"}, {"content", model.prompt("call")}}}},
            {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}},
            {"temperature", 0},
            {"max_tokens", 60}};
  const Json message = post(body);
  const auto id = message["tool_calls"][0]["id"].get<std::string>();
  EXPECT_EQ(id.size(), 9u);
  for (const std::string& given : {id, std::string("call_0123456789abcdefghijklmn")}) {
    Json history = body, turn = message;
    turn["tool_calls"][0]["id"] = given;
    history["messages"].push_back(turn);
    history["messages"].push_back({{"role", "tool"}, {"tool_call_id", given}, {"content", "20"}});
    post(history);
  }
}

TEST_F(ScriptedAnswers, PartsOfCharactersHaveNamesOfTheirOwn) {
  const Answer answer = ask("/v1/completions", {{"prompt", model_->prompt("emoji")},
                                                {"temperature", 0},
                                                {"max_tokens", 20},
                                                {"logprobs", 5},
                                                {"logit_bias", {{"159", 50}, {"160", 49}, {"240", 48}}},
                                                {"echo", true}});
  const Json logprobs = json_of(answer)["choices"][0]["logprobs"];
  bool any = false;
  for (size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    const Json& top = logprobs["top_logprobs"][i];
    if (top.is_null()) continue;
    EXPECT_TRUE(top.contains(logprobs["tokens"][i].get<std::string>())) << top;
    EXPECT_GE(top.size(), 5u);
    any = any || top.contains("bytes:\\x9f");
  }
  EXPECT_TRUE(any);
}

}  // namespace
}  // namespace transom
