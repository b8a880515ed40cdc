// SPDX-License-Identifier: Apache-2.0
// transom chat from outside: turns of standard input, with a model of its own and with a server.
#include <gtest/gtest.h>

#include <map>

#include "apps/cli/program.h"
#include "apps/serve/golden_server.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "support/scripted_model.h"

namespace transom {
namespace {

const std::map<std::string, std::string> kSaid{
    {"first", "A first answer."}, {"other", "Another one."}, {"thought", "<think>\nHm.\n</think>\n\nYes."}};

class ChatProgram : public testing::Test {
 protected:
  // The prompt is the last turn alone, whose length says what is answered.
  ChatProgram()
      : model_({"</s>"}, {"<think>", "</think>"}, kSaid,
               "{{ messages[-1]['content'] }}{% if messages[0]['role'] == 'system' %}{% endif %}") {}
  std::string lines(const std::vector<std::string>& words) const {
    std::string text = "printf '%s\\n'";
    for (const std::string& word : words) text += " '" + word + "'";
    return text + " | ";
  }
  std::string turn(const std::string& name) const { return model_.prompt(name); }
  std::string here() const { return "chat --device cpu --temperature 0 --model " + model_.folder() + " "; }
  test::ScriptedModel model_;
  test::TemporaryFolder folder_;
};

TEST_F(ChatProgram, AnswersALineAfterTheOther) {
  const test::CommandOutcome outcome =
      run(here(), lines({turn("first"), "", turn("other"), turn("thought"), "/quit", turn("first")}));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "A first answer.\nAnother one.\nYes.\n");
}

TEST_F(ChatProgram, SavesAndGoesOn) {
  const std::string file = (folder_ / "chat.json").string();
  ASSERT_EQ(run(here() + "--system S", lines({turn("first"), "/save " + file})).output, "A first answer.\n");
  const Json saved = parse_json(read_file(file), file);
  EXPECT_EQ(saved["messages"][0]["content"], "S");
  EXPECT_EQ(saved["messages"][2]["content"], "A first answer.");
  EXPECT_EQ(saved["settings"]["temperature"], 0.0);
  EXPECT_EQ(run(here() + "--load " + file, lines({"/undo", turn("other")})).output, "Another one.\n");
}

TEST_F(ChatProgram, FailsInOneLine) {
  expect_one_line(run(here(), lines({"/sing"})), 2, "/sing: no such command; /help shows them");
  expect_one_line(run(here() + "--top_k many", "printf '' | "), 2, "--top_k: expected a whole number, found 'many'");
  expect_one_line(run("chat", "printf '' | "), 2, "--model is missing");
  expect_one_line(run(here() + "--max_tokens 3 --max_new_tokens 4", "printf '' | "), 2, "say the same");
  expect_one_line(run(here(), lines({"/set temperature 7", turn("first")})), 1, "temperature: expected");
  expect_one_line(run(here(), lines({std::string(5000, 'x')})), 1, "maximum context length");
}

TEST_F(ChatProgram, TalksToAServerAsToItsOwnModel) {
  const auto server = test::start_server({.models = {{"script", model_.folder()}}, .api_keys = {"k"}});
  const std::string there = "chat --temperature 0 --server http://127.0.0.1:" + std::to_string(server->port()) + " ";
  const std::string input = lines({turn("first"), turn("other")});
  EXPECT_EQ(run(there + "--api_key k", input).output, "A first answer.\nAnother one.\n");
  expect_one_line(run(there + "--api_key wrong", input), 1, "status 401");
  expect_one_line(run(there + "--api_key k --max_model_length 9", input), 2, "--max_model_length: not with --server");
}

}  // namespace
}  // namespace transom
