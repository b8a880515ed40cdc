// SPDX-License-Identifier: Apache-2.0
// What tasks declare: words of a command line, values of requests, and that every task declares what it takes.
#include "work/pipelines/parameters.h"

#include <gtest/gtest.h>

#include <set>

#include "base/json/json.h"
#include "support/message.h"
#include "transom/pipeline.h"
#include "work/pipelines/pipeline.h"

namespace transom {
namespace {

using Kind = TaskParameter::Type;

TEST(TaskParameters, AreReadFromWords) {
  const auto value = [](Kind type, const std::string& word) {
    return json_of_value(parameter_of_word({"x", type, "help", "", {"first", "none"}}, word));
  };
  EXPECT_EQ(value(Kind::kFlag, "true"), true);
  EXPECT_EQ(value(Kind::kFlagOrWord, "False"), false);
  EXPECT_EQ(value(Kind::kFlagOrWord, "first"), "first");
  EXPECT_EQ(value(Kind::kText, "none"), "none");  // a choice, no null
  EXPECT_EQ(value(Kind::kInteger, "3"), 3);
  EXPECT_EQ(value(Kind::kNumber, "0.5"), 0.5);
  EXPECT_EQ(value(Kind::kNumbers, "1,2.5"), (Json{1.0, 2.5}));
  EXPECT_EQ(value(Kind::kTexts, "trade, sport"), (Json{"trade", "sport"}));
  EXPECT_EQ(value(Kind::kJson, R"({"a": 1})"), (Json{{"a", 1}}));
  EXPECT_EQ(json_of_value(parameter_of_word({"top_k", Kind::kInteger, "help"}, "none")), nullptr);
  EXPECT_EQ(test::message_of([&] { value(Kind::kInteger, "many"); }), "--x: expected a whole number, found 'many'");
  EXPECT_EQ(test::message_of([&] { value(Kind::kFlag, "perhaps"); }), "--x: expected true or false, found 'perhaps'");
}

TEST(TaskParameters, AreDeclaredByEveryTask) {
  for (const std::string& task : pipeline_tasks()) {
    std::set<std::string> names;
    for (const TaskParameter& parameter : need_task(task).parameters()) {
      EXPECT_TRUE(names.insert(parameter.name).second) << task << ": " << parameter.name << " stands twice";
      if (parameter.type != Kind::kGeneration) {
        EXPECT_NE(parameter.help, "") << task << ": " << parameter.name;
      }
    }
    EXPECT_NE(need_task(task).example, "") << task;
  }
  EXPECT_EQ(names_of(need_task("ner").parameters()), names_of(need_task("token-classification").parameters()));
  EXPECT_EQ(names_of(need_task("translation_en_to_fr").parameters()), names_of(need_task("translation").parameters()));
  EXPECT_NE(test::message_of([] { need_task("fill-mask2"); }).find("did you mean 'fill-mask'?"), std::string::npos);
}

TEST(TaskParameters, AreShownToOtherPrograms) {
  const Json list = parse_json(pipeline_parameters("zero-shot-classification"), "parameters");
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["name"], "candidate_labels");
  EXPECT_EQ(list[0]["type"], "texts");
  EXPECT_EQ(list[0]["required"], true);
  EXPECT_EQ(list[1]["default"], "This example is {}.");
}

}  // namespace
}  // namespace transom
