// SPDX-License-Identifier: Apache-2.0
// transom generate from outside: prompts, standard input, chats, JSON.
#include <gtest/gtest.h>

#include "apps/cli/program.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "support/word_models.h"

namespace transom {
namespace {

class Generate : public testing::Test {
 protected:
  Generate() {
    test::save_word_model(folder_, test::kWordGpt2, "",
                          R"({"chat_template": "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"})");
  }
  std::string call() const { return "generate --device cpu --max_new_tokens 4 --model " + folder_.string() + " "; }
  Json json_of(const std::string& arguments) {
    const test::CommandOutcome outcome = run(call() + arguments + " --json");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return parse_json(outcome.output, "output");
  }
  test::TemporaryFolder folder_;
};

TEST_F(Generate, ReadsAPromptFromStandardInput) {
  const test::CommandOutcome word = run(call() + "'w3 w4'");
  ASSERT_EQ(word.status, 0) << word.output;
  EXPECT_TRUE(word.output.starts_with("w3 w4 ")) << word.output;
  EXPECT_EQ(run(call() + "-", "printf 'w3\\nw4\\n' | ").output, word.output);  // one prompt of two lines
  expect_one_line(run(call()), 2, "- reads it from standard input");
}

TEST_F(Generate, PrintsThePipelinesJson) {
  const Json one = json_of("'w3 w4'");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_TRUE(one[0]["generated_text"].get<std::string>().starts_with("w3 w4"));
  const Json two = json_of("'w3 w4' w5");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0]["input"], "w3 w4");
  EXPECT_EQ(two[0]["result"], one);
}

TEST_F(Generate, FlagsTakeTheWordsOfHfArgumentParser) {
  EXPECT_EQ(run(call() + "'w3 w4' --do_sample 0").output, run(call() + "'w3 w4' --do_sample false").output);
  EXPECT_EQ(run(call() + "--do_sample NO 'w3 w4'").output, run(call() + "--do_sample false 'w3 w4'").output);
}

TEST_F(Generate, SaysWhatChangesNothing) {
  const std::string said = "--temperature has no effect without do_sample";
  EXPECT_NE(run(call() + "'w3 w4' --temperature 0.5").output.find(said), std::string::npos);
  EXPECT_EQ(run(call() + "'w3 w4' --temperature 0.5 --do_sample").output.find(said), std::string::npos);
}

TEST_F(Generate, DrawsEachLineWithASeedOfItsOwn) {
  const std::string draw = " --do_sample --temperature 2 --max_new_tokens 9 --seed ";
  const auto text = [&](const std::string& seed) { return json_of("'w3 w4'" + draw + seed); };
  const Json prompts = json_of("'w3 w4' 'w3 w4' 'w3 w4'" + draw + "7");
  ASSERT_NE(text("7"), text("8"));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(prompts[i]["result"], text(std::to_string(7 + i))) << i;
  const auto in = folder_ / "in.jsonl", out = folder_ / "out.jsonl";
  write_file(in, "{\"text\": [\"w3 w4\"]}\n\n{\"text\": [\"w3 w4\"]}\n");
  const auto lines = [&] {
    EXPECT_EQ(run(call() + "--inputs " + in.string() + " --outputs " + out.string() + draw + "7").status, 0);
    return read_file(out);
  };
  const std::string both = lines();
  EXPECT_EQ(lines(), both);
  const Json first = parse_json(both.substr(0, both.find('\n')), "first");
  const Json second = parse_json(both.substr(both.find('\n') + 1), "second");
  const auto letters = [](std::string text) {
    std::erase(text, ' ');
    return text;
  };
  EXPECT_EQ(letters(first["generated_text"][0]), letters(text("7")[0]["generated_text"]));
  EXPECT_EQ(letters(second["generated_text"][0]), letters(text("8")[0]["generated_text"]));
}

TEST_F(Generate, AnswersInChats) {
  const std::string messages = R"([{"role": "user", "content": "w3 w4"}])";
  const Json result = json_of("--messages '" + messages + "'");
  const Json& chat = result[0]["generated_text"];
  ASSERT_EQ(chat.size(), 2u) << dump_json(result);
  EXPECT_EQ(chat[1]["role"], "assistant");
  const std::string answer = chat[1]["content"];
  EXPECT_EQ("w3 w4" + answer, json_of("'w3 w4'")[0]["generated_text"]);
  // A file, and an object around the list, do as well; people see the answer alone.
  write_file(folder_ / "chat.json", "{\"messages\": " + messages + "}");
  const std::string line = call() + "--messages " + (folder_ / "chat.json").string();
  EXPECT_EQ(run(line).output, answer + "\n");
  EXPECT_NE(json_of("--messages '" + messages + "' --chat_template '{{ messages[0].content }} w7'"), result);
  expect_one_line(run(call() + "--messages '[{\"role\": 1}]'"), 1, "--messages: expected messages");
  expect_one_line(run(call() + "w1 --chat_template x"), 2, "without --messages");
}

// A model of chats that sees no template often ends at once: people would see their own prompt again, and nothing else.
TEST_F(Generate, NamesMessagesWhereAChatModelEndsAtOnce) {
  const std::string word = json_of("w3")[0]["generated_text"].get<std::string>().substr(2);
  const std::string end = " --eos_token_id " + word.substr(1, word.find(' ') - 1);
  EXPECT_NE(run(call() + "w3" + end).output.find("--messages TEXT"), std::string::npos) << word;
  EXPECT_EQ(run(call() + "w3").output.find("--messages"), std::string::npos);
  EXPECT_EQ(run(call() + "--messages w3" + end).output.find("--messages"), std::string::npos);
}

TEST_F(Generate, TakesElementTypesAndQuantization) {
  for (const char* options : {"--dtype bf16", "--dtype auto", "--quantization int8"}) {
    const test::CommandOutcome outcome = run(call() + "'w3 w4' " + options);
    EXPECT_EQ(outcome.status, 0) << options << outcome.output;
  }
  EXPECT_EQ(run(call() + "'w3 w4' --quantization int2").status, 2);
}

TEST_F(Generate, AFlagDoesNotTakeThePromptBehindIt) {
  const test::CommandOutcome outcome = run(call() + "--do_sample 'w3 w4'");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(outcome.output.starts_with("w3 w4")) << outcome.output;
}

}  // namespace
}  // namespace transom
