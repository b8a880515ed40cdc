// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/policies/rewards/rewards.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using Scores = std::vector<std::optional<double>>;

// Of completions that are texts, the answers of whose rows are `answers` as JSON.
Scores scored(const std::string& word, const std::vector<std::string>& texts,
              const std::vector<std::string>& answers = {}) {
  RewardRequest request;
  request.completions = texts;
  request.prompts.assign(texts.size(), "a prompt");
  request.completion_ids.assign(texts.size(), {1});
  request.columns["answer"] = answers.empty() ? std::vector<std::string>(texts.size(), "\"\"") : answers;
  return make_reward(word, {.columns = {"answer"}, .data = "rows.jsonl"}).function(request);
}

Scores scored_tokens(const std::string& word, const std::vector<std::vector<int64_t>>& tokens) {
  RewardRequest request;
  request.completion_ids = tokens;
  request.completions.assign(tokens.size(), "");
  request.prompts.assign(tokens.size(), "");
  return make_reward(word, {.columns = {}, .data = "rows.jsonl"}).function(request);
}

TEST(Rewards, OfTheSameTextAsAColumn) {
  EXPECT_EQ(scored("exact:answer", {" Rome.\n", "rome.", "Paris"}, {"\"Rome.\"", "\"Rome.\"", "\"\""}),
            (Scores{1, 0, std::nullopt}));
}

TEST(Rewards, OfTheLastNumber) {
  const std::vector<std::pair<std::string, std::string>> right = {{"so it is 42.", "42"},
                                                                  {"42", "\"#### 42\""},
                                                                  {"1,234.50 in all", "1234.5"},
                                                                  {"x = -3", "-3"},
                                                                  {"9-3 is 6", "6"}};
  for (const auto& [text, answer] : right) EXPECT_EQ(scored("number", {text}, {answer}), Scores{1}) << text;
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"42 or 43", "42"}, {"none", "42"}, {"3", "-3"}, {"12345", "1234.5"}, {"5-3", "-3"}};
  for (const auto& [text, answer] : wrong) EXPECT_EQ(scored("number", {text}, {answer}), Scores{0}) << text;
  EXPECT_EQ(scored("number:answer", {"1"}, {"null"}), Scores{std::nullopt});
}

TEST(Rewards, OfForms) {
  EXPECT_EQ(scored("pattern:^a+$", {"aaa", "ba"}), (Scores{1, 0}));
  EXPECT_EQ(scored("pattern:<b>.*</b>", {"x <b>y</b> z", "<b>"}), (Scores{1, 0}));
  EXPECT_EQ(scored("json", {" {\"a\": [1]} ", "{a}", ""}), (Scores{1, 0, 0}));
  EXPECT_EQ(scored("think_format_reward", {"<think>\nwhy\n</think>\nso", "<think>why", "<think><think></think>", "so"}),
            (Scores{1, 0, 0, 0}));
  const test::TemporaryFolder folder;
  write_file(folder.path() / "schema.json",
             R"({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})");
  const std::string schema = "json_schema:" + (folder.path() / "schema.json").string();
  EXPECT_EQ(scored(schema, {R"({"n": 3})", R"({"n": "3"})", "3", ""}), (Scores{1, 0, 0, 0}));
}

TEST(Rewards, OfTokens) {
  EXPECT_EQ(scored_tokens("length:4", {{1, 2, 3, 4}, {1, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}), (Scores{1, 0.5, 0}));
  EXPECT_EQ(scored_tokens("soft_overlong_punishment_reward:100,20",
                          {std::vector<int64_t>(90, 1), std::vector<int64_t>(80, 1), std::vector<int64_t>(101, 1)}),
            (Scores{-0.5, 0, -1}));
  // Of three triples one is new.
  EXPECT_EQ(scored_tokens("repetition_penalty_reward", {{5, 5, 5, 5, 5}, {1, 2, 3, 4}, {1, 2}}),
            (Scores{1.0 / 3 - 1, 0, 0}));
}

TEST(Rewards, OfACommand) {
  EXPECT_EQ(
      scored("command:while read -r line; do case $line in *good*) echo 1;; *) echo '{\"reward\": null}';; esac; done",
             {"good", "bad"}),
      (Scores{1, std::nullopt}));
  const auto message = [](const std::string& command) {
    return test::message_of([&] { scored("command:" + command, {"a", "b"}); });
  };
  EXPECT_NE(message("echo 1").find("expected 2 lines"), std::string::npos) << message("echo 1");
  EXPECT_NE(message("echo 1; echo one").find("line 2 of the answer"), std::string::npos);
  EXPECT_NE(message("echo no >&2; exit 3").find("status 3: no"), std::string::npos) << message("echo no >&2; exit 3");
}

TEST(Rewards, OfAFunctionThatAProgramBrings) {
  register_reward("of_the_program", [](const RewardRequest& request) {
    return Scores(request.completions.size(), request.columns.at("answer")[0] == "7" ? 1.0 : 0.0);
  });
  EXPECT_EQ(scored("of_the_program", {"a"}, {"7"}), Scores{1});
  EXPECT_NE(test::message_of([] {
              register_reward("of_the_program", [](const auto&) { return Scores(); });
            }).find("is known already"),
            std::string::npos);
  EXPECT_NE(test::message_of([] { register_reward("number", [](const auto&) { return Scores(); }); }).find("built in"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
