// SPDX-License-Identifier: Apache-2.0
// response_format structural_tag: free text with parts that have a form.
#include <gtest/gtest.h>

#include "apps/serve/golden_server.h"
#include "support/scripted_model.h"

namespace transom {
namespace {

using test::Answer;
using test::Client;
using test::json_of;

TEST(StructuralTag, ShapesWhatATriggerBegins) {
  const test::ScriptedModel model({"</s>"}, {}, {{"tag", "A <f=b>zzzzzzzzzz"}});
  const auto server = test::start_server({.models = {{"script", model.folder()}}});
  const auto ask = [&](const Json& more) {
    Json body{
        {"messages", {{{"role", "user"}, {"content", model.prompt("tag")}}}}, {"temperature", 0}, {"max_tokens", 30}};
    body.update(more);
    return Client(server->port()).post("/v1/chat/completions", dump_json(body));
  };
  const auto content = [&](const Json& more) {
    const Answer answer = ask(more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json_of(answer)["choices"][0]["message"]["content"].get<std::string>();
  };
  EXPECT_EQ(content(Json::object()), "A <f=b>zzzzzzzzzz");
  const Json structure{{"begin", "<f=b>"}, {"schema", {{"const", 7}}}, {"end", "</f>"}};
  const Json older{{"type", "structural_tag"}, {"structures", {structure}}, {"triggers", {"<f="}}};
  EXPECT_EQ(content({{"response_format", older}}), "A <f=b>7</f>zzzzz");
  Json text = older;
  text.erase("type");
  EXPECT_EQ(content({{"structured_outputs", {{"structural_tag", dump_json(text)}}}}), "A <f=b>7</f>zzzzz");
  const Json tag{
      {"begin", "<f=b>"}, {"content", {{"type", "json_schema"}, {"json_schema", {{"const", 7}}}}}, {"end", "</f>"}};
  Json format{{"type", "triggered_tags"}, {"triggers", {"<f="}}, {"tags", {tag}}, {"stop_after_first", true}};
  const auto newer = [&] { return Json{{"response_format", {{"type", "structural_tag"}, {"format", format}}}}; };
  EXPECT_EQ(content(newer()), "A <f=b>7</f>");
  format["type"] = "sequence";
  EXPECT_EQ(ask(newer()).status, 400);
  EXPECT_EQ(ask({{"response_format", {{"type", "structural_tag"}}}}).status, 400);
}

}  // namespace
}  // namespace transom
